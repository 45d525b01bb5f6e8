package_name = 'onnxruntime'
__version__ = '1.16.3'
