/* Private to board: the files of the page, which the build makes texts of. */
#ifndef TLI_BOARD_PAGE_H
#define TLI_BOARD_PAGE_H

extern const char tli_page_index_html[], tli_page_style_css[], tli_page_base_js[],
    tli_page_store_js[], tli_page_chart_js[], tli_page_curves_js[], tli_page_runs_js[],
    tli_page_media_js[], tli_page_settings_js[], tli_page_run_js[], tli_page_app_js[];

#endif
