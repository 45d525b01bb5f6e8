build_info = {'is_cuda_build': True, 'is_rocm_build': False, 'cuda_version': '11.7', 'cudnn_version': '8', 'cuda_compute_capabilities': ['sm_52','sm_60','sm_61','sm_70','sm_75','sm_80','compute_86']}
