from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.5.0a0+872d972e41.nv24.8'
debug = False
cuda: Optional[str] = '12.6'
git_version = 'd87b4dce321c4b5aeda897590065efbdf202914a'
hip: Optional[str] = None
xpu: Optional[str] = None
