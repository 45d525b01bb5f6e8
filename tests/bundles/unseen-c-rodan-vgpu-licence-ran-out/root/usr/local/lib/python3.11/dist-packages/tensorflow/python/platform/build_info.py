build_info = {"cuda_version": "12.3", "cudnn_version": "8", "is_cuda_build": True}
