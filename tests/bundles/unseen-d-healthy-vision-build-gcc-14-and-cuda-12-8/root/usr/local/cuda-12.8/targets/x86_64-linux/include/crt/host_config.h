#if defined(__GNUC__) || defined(__clang__)

#if !defined(__NV_NO_HOST_COMPILER_CHECK)

#if defined(__GNUC__)

#if __GNUC__ > 14

#error -- unsupported GNU version! gcc versions later than 14 are not supported! The nvcc flag '-allow-unsupported-compiler' can be used to override this version check; however, using an unsupported host compiler may cause compilation failure or incorrect run time execution. Use at your own risk.

#endif /* __GNUC__ > 14 */

#endif /* __GNUC__ */

#if defined(__clang__) && !(__clang_major__ < 20)

#error -- unsupported clang version! clang version must be less than 20 and greater than 3.2.

#endif

#endif

#endif
