from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.8.0a0+5228986c39.nv25.06'
debug = False
cuda: Optional[str] = '12.9'
git_version = 'x'
hip: Optional[str] = None
