from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.10.0+cu128'
debug = False
cuda: Optional[str] = '12.8'
git_version = 'ee1f8ab2a0'
hip: Optional[str] = None
