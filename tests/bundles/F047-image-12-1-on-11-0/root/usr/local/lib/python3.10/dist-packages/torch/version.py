from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.1.0a0+32f93b1'
debug = False
cuda: Optional[str] = '12.1'
git_version = 'ee1f8ab2a0'
hip: Optional[str] = None
