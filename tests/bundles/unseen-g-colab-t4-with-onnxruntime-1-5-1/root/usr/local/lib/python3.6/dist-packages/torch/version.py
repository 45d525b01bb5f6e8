__version__ = '1.7.0+cu101'
debug = False
cuda = '10.1'
git_version = '8fc4695c7faf44bcecf868e2e2061c8e69ae57f1'
hip = None
