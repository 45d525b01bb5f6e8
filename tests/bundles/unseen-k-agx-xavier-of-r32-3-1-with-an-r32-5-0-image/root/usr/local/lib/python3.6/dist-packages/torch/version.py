from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '1.7.0'
debug = False
cuda: Optional[str] = '10.2'
git_version = 'x'
hip: Optional[str] = None
