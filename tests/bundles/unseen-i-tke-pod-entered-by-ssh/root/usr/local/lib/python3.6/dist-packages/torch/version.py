__version__ = '1.6.0+cu101'
debug = False
cuda = '10.1'
git_version = 'x'
hip = None
