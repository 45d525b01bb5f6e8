#if _NV_RSQRT_SPECIFIER_NEEDED
#define _NV_RSQRT_SPECIFIER noexcept (true)
#else
#define _NV_RSQRT_SPECIFIER
#endif
extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ double                 rsqrt(double x) _NV_RSQRT_SPECIFIER;
extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ double                 sinpi(double x) noexcept (true);
extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ double                 cospi(double x) noexcept (true);
