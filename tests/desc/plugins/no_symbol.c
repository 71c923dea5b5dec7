/* A shared object, but no plug-in. */
#include <tilth/desc/registry.h>

TL_EXPORT extern const int nothing_of_interest;
const int nothing_of_interest = 1;
