#include "board/page.h"

#include "board/answer.h"

#define STYLE "text/css; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"
const tli_page_file tli_page_files[] = {
    {"/index.html", "text/html; charset=utf-8", tli_page_index_html},
    {"/style.css", STYLE, tli_page_style_css},
    {"/base.js", SCRIPT, tli_page_base_js},
    {"/store.js", SCRIPT, tli_page_store_js},
    {"/chart.js", SCRIPT, tli_page_chart_js},
    {"/curves.js", SCRIPT, tli_page_curves_js},
    {"/runs.js", SCRIPT, tli_page_runs_js},
    {"/media.js", SCRIPT, tli_page_media_js},
    {"/settings.js", SCRIPT, tli_page_settings_js},
    {"/run.js", SCRIPT, tli_page_run_js},
    {"/app.js", SCRIPT, tli_page_app_js},
};
const int64_t tli_page_file_count = TL_COUNT(tli_page_files);
