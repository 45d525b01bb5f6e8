from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.8.0+cu128'
debug = False
cuda: Optional[str] = '12.8'
git_version = 'ee878a3bd4f632a59ee94d0a260a68c7f4f6eecd'
hip: Optional[str] = None
xpu: Optional[str] = None
