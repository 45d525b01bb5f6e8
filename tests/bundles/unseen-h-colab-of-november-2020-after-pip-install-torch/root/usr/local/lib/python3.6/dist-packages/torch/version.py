__version__ = '1.7.0'
debug = False
cuda = '10.2'
git_version = '9b80ca131fbc6cb5a944359bf46b2f5f301b25fc'
hip = None
