/* x / (1 + |x|); far out, where a quotient of infinities would be NaN, it is 1 anyway. */
TLI_FORMULA_1(softsign, x)
{
    const vf in = vf_max_c(vf_min_c(x, vf_set1(0x1p60f)), vf_set1(-0x1p60f));
    return vf_div(in, vf_add(vf_set1(1), vf_abs(in)));
}
