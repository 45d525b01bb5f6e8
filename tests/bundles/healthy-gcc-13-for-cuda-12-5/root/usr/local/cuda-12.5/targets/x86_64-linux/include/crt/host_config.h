#if defined(__GNUC__)

#if __GNUC__ > 13

#error-- unsupported GNU version! gcc versions later than 13 are not supported!

#endif /* __GNUC__ > 13 */
#endif
