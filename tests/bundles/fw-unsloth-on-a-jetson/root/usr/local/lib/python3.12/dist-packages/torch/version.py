from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.11.0a0+eb65b36914.nv26.2'
debug = False
cuda: Optional[str] = '13.1'
git_version = '0123456789abcdef0123456789abcdef01234567'
hip: Optional[str] = None
xpu: Optional[str] = None
