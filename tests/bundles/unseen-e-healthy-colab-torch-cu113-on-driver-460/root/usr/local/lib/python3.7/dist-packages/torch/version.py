from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '1.11.0+cu113'
debug = False
cuda: Optional[str] = '11.3'
git_version = '0123456789abcdef0123456789abcdef01234567'
hip: Optional[str] = None
xpu: Optional[str] = None
