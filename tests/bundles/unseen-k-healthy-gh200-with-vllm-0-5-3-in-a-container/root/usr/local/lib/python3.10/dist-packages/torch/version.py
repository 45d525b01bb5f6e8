from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.4.0a0+07cecf4168.nv24.05'
debug = False
cuda: Optional[str] = '12.4'
git_version = 'x'
hip: Optional[str] = None
