from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.3.0a0+ebedce2'
debug = False
cuda: Optional[str] = '12.3'
git_version = 'x'
hip: Optional[str] = None
