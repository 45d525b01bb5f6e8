__version__ = '2.7.0+cu128'
debug = False
cuda = '12.8'
git_version = '950c2a85ca6e09ff92307f90363c43be5b8e3ad3'
hip = None
