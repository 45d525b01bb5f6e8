from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.9.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
git_version = '469d42908dcba3dbf81fd13ff6cba2db10fd4d1f'
hip: Optional[str] = None
xpu: Optional[str] = None
