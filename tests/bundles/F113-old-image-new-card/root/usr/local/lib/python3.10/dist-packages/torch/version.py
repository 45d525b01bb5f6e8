from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.0.1+cu118'
debug = False
cuda: Optional[str] = '11.8'
git_version = 'ee1f8ab2a0'
hip: Optional[str] = None
