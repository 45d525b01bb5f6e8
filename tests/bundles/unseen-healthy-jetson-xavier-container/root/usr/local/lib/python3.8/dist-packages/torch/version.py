__version__ = '2.0.0+nv23.05'
debug = False
cuda = '11.4'
git_version = '9a4d2e'
hip = None
