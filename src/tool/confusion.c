#include "tool/confusion.h"

#include <math.h>
#include <string.h>

#include "tool/svg.h"

/* --- tables ----------------------------------------------------------------------------------- */

void tli_csv_add(tl_str *out, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        tl_str_add(out, text);
        return;
    }
    tl_str_addc(out, '"');
    for (const char *p = text; *p; p++) {
        if (*p == '"') tl_str_addc(out, '"');
        tl_str_addc(out, *p);
    }
    tl_str_addc(out, '"');
}

void tli_confusion_csv(tl_str *out, const tli_confusion *k)
{
    tl_str_add(out, "class");
    for (int64_t i = 0; i < k->classes; i++) {
        tl_str_addc(out, ',');
        tli_csv_add(out, k->names[i]);
    }
    tl_str_addc(out, '\n');
    for (int64_t i = 0; i < k->classes; i++) {
        tli_csv_add(out, k->names[i]);
        for (int64_t n = 0; n < k->classes; n++)
            tl_str_addf(out, ",%.0f", k->counts[i * k->classes + n]);
        tl_str_addc(out, '\n');
    }
}

void tli_confusion_json(tli_json *j, const char *key, const tli_confusion *k)
{
    tli_json_begin(j, key, '{');
    tli_json_begin(j, "classes", '[');
    for (int64_t i = 0; i < k->classes; i++) tli_json_text(j, NULL, k->names[i]);
    tli_json_end(j, ']');
    tli_json_begin(j, "counts", '[');
    for (int64_t i = 0; i < k->classes; i++) {
        tli_json_begin(j, NULL, '[');
        for (int64_t n = 0; n < k->classes; n++)
            tli_json_int(j, NULL, (int64_t)k->counts[i * k->classes + n]);
        tli_json_end(j, ']');
    }
    tli_json_end(j, ']');
    tli_json_end(j, '}');
}

/* --- a picture -------------------------------------------------------------------------------- */

/* In pixels. Many classes have small cells, without numbers in them. */
typedef struct layout {
    double cell, font, left, top, right;
    bool numbers;
} layout;

enum { SHOWN_NAME = 24 }; /* letters of a name */
#define LETTER 0.6        /* width of one, of the size of the font */

static layout lay_out(const tli_confusion *k)
{
    layout l = {.cell = k->classes <= 12   ? 54
                        : k->classes <= 30 ? 36
                                           : 14,
                .numbers = k->classes <= 30};
    int64_t longest = 1;
    for (int64_t i = 0; i < k->classes; i++) {
        int64_t n = tli_svg_letters(k->names[i]);
        longest = n > longest ? n : longest;
    }
    if (longest > SHOWN_NAME) longest = SHOWN_NAME;
    l.font = k->classes <= 12 ? 13 : k->classes <= 30 ? 11 : 9;
    l.left = 40 + (double)longest * l.font * LETTER;
    l.top = 64 + (double)longest * l.font * LETTER * 0.72 + l.font;
    l.right = 64 + (double)longest * l.font * LETTER * 0.72;
    return l;
}

/* From white over the hue to its dark end: blue where the answer is right, orange where it is
 * wrong. */
static void add_colour(tl_str *out, double share, bool right)
{
    static const double ends[2][2][3] = {{{253, 190, 133}, {166, 54, 3}},
                                         {{158, 202, 225}, {8, 69, 148}}};
    int rgb[3];
    for (int i = 0; i < 3; i++) {
        double half = share < 0.5 ? share * 2 : (share - 0.5) * 2;
        double from = share < 0.5 ? 255 : ends[right][0][i],
               to = ends[right][share < 0.5 ? 0 : 1][i];
        rgb[i] = (int)(from + (to - from) * half + 0.5);
    }
    tl_str_addf(out, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
}

/* Small shares must be seen: their root is what is shown of mistakes. */
static double shown_share(double share, bool right)
{
    return right || share <= 0 ? share : sqrt(share);
}

static void add_cell(tl_str *out, const tli_confusion *k, const layout *l, int64_t row,
                     int64_t column, double sum)
{
    double count = k->counts[row * k->classes + column], share = sum > 0 ? count / sum : 0;
    double x = l->left + (double)column * l->cell, y = l->top + (double)row * l->cell;
    bool right = row == column;
    double shown = shown_share(share, right);
    tl_str_addf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"", x, y,
                l->cell, l->cell);
    add_colour(out, shown, right);
    tl_str_add(out, "\"><title>");
    tl_str_addf(out, "%.0f of ", count);
    tli_svg_text(out, k->names[row], SHOWN_NAME);
    tl_str_add(out, right ? " recognised" : " taken for ");
    if (!right) tli_svg_text(out, k->names[column], SHOWN_NAME);
    tl_str_addf(out, " (%.1f%%)</title></rect>\n", share * 100);
    if (!l->numbers || count <= 0) return;
    tl_str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\"%s>%.0f</text>\n",
                x + l->cell / 2, y + l->cell / 2 + l->font * 0.36,
                shown > 0.65 ? " fill=\"#ffffff\"" : "", count);
}

/* The name, the cells, and how many of the class were recognised. */
static void add_row(tl_str *out, const tli_confusion *k, const layout *l, int64_t row)
{
    const double *counts = k->counts + row * k->classes;
    double sum = 0, y = l->top + (double)row * l->cell + l->cell / 2 + l->font * 0.36;
    for (int64_t i = 0; i < k->classes; i++) sum += counts[i];
    tl_str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", l->left - 8, y);
    tli_svg_text(out, k->names[row], SHOWN_NAME);
    tl_str_add(out, "</text>\n");
    for (int64_t i = 0; i < k->classes; i++) add_cell(out, k, l, row, i, sum);
    if (sum > 0)
        tl_str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" fill=\"#666666\">%.1f%%</text>\n",
                    l->left + (double)k->classes * l->cell + 8, y, counts[row] / sum * 100);
}

static void add_column_name(tl_str *out, const tli_confusion *k, const layout *l, int64_t column)
{
    double x = l->left + ((double)column + 0.5) * l->cell, y = l->top - 8;
    tl_str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" transform=\"rotate(-45 %.1f %.1f)\">", x, y, x,
                y);
    tli_svg_text(out, k->names[column], SHOWN_NAME);
    tl_str_add(out, "</text>\n");
}

static double accuracy(const tli_confusion *k, double *total)
{
    double right = 0;
    *total = 0;
    for (int64_t i = 0; i < k->classes * k->classes; i++) *total += k->counts[i];
    for (int64_t i = 0; i < k->classes; i++) right += k->counts[i * (k->classes + 1)];
    return *total > 0 ? right / *total : 0;
}

void tli_confusion_svg(tl_str *out, const tli_confusion *k)
{
    layout l = lay_out(k);
    double side = (double)k->classes * l.cell, total, right = accuracy(k, &total);
    double width = l.left + side + l.right, height = l.top + side + 40;
    if (width < 420) width = 420;
    tl_str_addf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                "viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, sans-serif\" "
                "font-size=\"%g\" fill=\"#222222\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
                width, height, width, height, l.font);
    tl_str_addf(
        out,
        "<text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"bold\">Confusion matrix</text>\n"
        "<text x=\"16\" y=\"48\" font-size=\"12\" fill=\"#666666\">%.0f examples, %.2f%% "
        "recognised; rows: true class, columns: predicted class</text>\n",
        total, right * 100);
    for (int64_t i = 0; i < k->classes; i++) add_column_name(out, k, &l, i);
    for (int64_t i = 0; i < k->classes; i++) add_row(out, k, &l, i);
    tl_str_addf(out, "<path d=\"");
    for (int64_t i = 0; i <= k->classes; i++) {
        double at = (double)i * l.cell;
        tl_str_addf(out, "M%.1f %.1fh%.1fM%.1f %.1fv%.1f", l.left, l.top + at, side, l.left + at,
                    l.top, side);
    }
    tl_str_add(out, "\" stroke=\"#dddddd\" fill=\"none\"/>\n");
    tl_str_addf(out,
                "<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\" fill=\"#666666\">numbers to the "
                "right of the rows: the share of each class that is recognised</text>\n</svg>\n",
                l.left, l.top + side + 24);
}
