#include <tilth/io/image/jpeg.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "io/image/impl.h"

/* More scans than any encoder makes: each costs a pass over the whole image, in a few bytes of
 * file. */
enum { MOST_SCANS = 500 };
/* Pixels beside a window that are decoded with it, for colours are interpolated from their
 * neighbours. */
enum { MARGIN = 2 };
enum { WRITE_BUFFER = 1 << 14, DEFAULT_QUALITY = 95 };

static const J_DCT_METHOD dct_methods[] = {
    [TL_JPEG_ACCURATE] = JDCT_ISLOW,
    [TL_JPEG_FAST] = JDCT_IFAST,
    [TL_JPEG_FLOAT] = JDCT_FLOAT,
};

/* What the library calls back with, and where it jumps to when it gives up. */
typedef struct job {
    struct jpeg_error_mgr errors; /* first: the library knows this part */
    jmp_buf mark;
    const char *doing;
    bool cut_is_fine, no_memory;
    char why[JMSG_LENGTH_MAX];
} job;

static void give_up(j_common_ptr c)
{
    job *j = (job *)c->err;
    j->no_memory = j->errors.msg_code == JERR_OUT_OF_MEMORY;
    j->errors.format_message(c, j->why);
    longjmp(j->mark, 1);
}

// Many files of real datasets have a byte too much somewhere; pixels that are not there are another
// matter.
static bool is_damage(int code)
{
    return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE
           || code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC || code == JWRN_NOT_SEQUENTIAL
           || code == JWRN_BOGUS_PROGRESSION;
}

static void take_message(j_common_ptr c, int level)
{
    job *j = (job *)c->err;
    if (level < 0 && !j->cut_is_fine && is_damage(j->errors.msg_code)) give_up(c);
}

static void say_nothing(j_common_ptr c)
{
    (void)c;
}

static struct jpeg_error_mgr *set_errors(job *j)
{
    jpeg_std_error(&j->errors);
    j->errors.error_exit = give_up;
    j->errors.emit_message = take_message;
    j->errors.output_message = say_nothing;
    return &j->errors;
}

static tl_status fail(const job *j)
{
    if (j->no_memory) return TL_FAIL(TL_ENOMEM, "out of memory while %s a JPEG image", j->doing);
    return TL_FAIL(TL_EINVAL, "%s a JPEG image: %s", j->doing, j->why);
}

/* Fails from within the library's calls. */
static void refuse(job *j, const char *why)
{
    snprintf(j->why, sizeof j->why, "%s", why);
    longjmp(j->mark, 1);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A file while it is decoded. */
typedef struct decoding {
    job j;
    struct jpeg_decompress_struct d;
    struct jpeg_progress_mgr progress;
    const tl_image_args *args;
    tl_image *out;
    tl_window window; /* in pixels of what the library makes */
    int64_t skipped;  /* columns that it gives before the window */
    int64_t colors;   /* channels of its rows: 4 are CMYK */
    tl_status status; /* of what is ours */
} decoding;

static void watch_scans(j_common_ptr c)
{
    decoding *g = c->client_data;
    if (g->d.input_scan_number > MOST_SCANS) refuse(&g->j, "it has too many scans");
}

static void begin(decoding *g, const void *data, size_t size)
{
    g->d.client_data = g;
    g->progress.progress_monitor = watch_scans;
    g->d.progress = &g->progress;
    jpeg_mem_src(&g->d, data, (unsigned long)size);
    jpeg_read_header(&g->d, TRUE);
}

static int64_t file_channels(decoding *g)
{
    switch (g->d.jpeg_color_space) {
    case JCS_GRAYSCALE: return 1;
    case JCS_YCbCr:
    case JCS_RGB:
    case JCS_CMYK:
    case JCS_YCCK: return 3;
    default: refuse(&g->j, "its colours are neither grey, RGB, YCbCr nor CMYK");
    }
    return 0;
}

// False when the library jumped out, here and below. No variable of these functions changes after
// the mark is set.
static bool look_guarded(tl_image_head *out, decoding *g, const void *data, size_t size)
{
    if (setjmp(g->j.mark) != 0) return false;
    jpeg_create_decompress(&g->d);
    begin(g, data, size);
    *out = (tl_image_head){TL_FORMAT_JPEG, g->d.image_height, g->d.image_width, file_channels(g),
                           tli_exif_orientation(TL_FORMAT_JPEG, data, size)};
    return true;
}

tl_status tl_jpeg_look(tl_image_head *out, const void *data, size_t size)
{
    decoding g = {.j = {.doing = "reading", .cut_is_fine = true}}; // decoding will tell
    g.d.err = set_errors(&g.j);
    *out = (tl_image_head){0};
    tl_status st = look_guarded(out, &g, data, size) ? TL_OK : fail(&g.j);
    jpeg_destroy_decompress(&g.d);
    return st;
}

static void set_output(decoding *g)
{
    int64_t channels = g->args->channels ? g->args->channels : file_channels(g);
    bool cmyk = g->d.jpeg_color_space == JCS_CMYK || g->d.jpeg_color_space == JCS_YCCK;
    bool grey = channels <= 2;
    (void)file_channels(g); // refuses what cannot be converted
    g->colors = cmyk ? 4 : grey ? 1 : 3;
    g->d.out_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    g->d.dct_method = dct_methods[g->args->dct];
    g->d.do_fancy_upsampling = !g->args->plain_upsampling;
    // What a progressive file lacks is not made up from neighbours, which a window may not have.
    g->d.do_block_smoothing = FALSE;
    g->d.scale_num = 1;
    g->d.scale_denom = g->args->shrink ? (unsigned)g->args->shrink : 1;
    g->out->channels = channels;
}

// Tells the library which columns are wanted. It takes more than we want, and from the border of a
// block.
static void cut_columns(decoding *g)
{
    int64_t whole = g->d.output_width, margin = g->args->plain_edges ? 0 : MARGIN;
    int64_t from = g->window.x > margin ? g->window.x - margin : 0;
    int64_t to = g->window.x + g->window.width + margin < whole
                     ? g->window.x + g->window.width + margin
                     : whole;
    g->skipped = g->window.x;
    // Columns of colours that are four times as wide would come out of another place.
    if ((from == 0 && to == whole) || g->d.max_h_samp_factor > 2) return;
    JDIMENSION x = (JDIMENSION)from, width = (JDIMENSION)(to - from);
    jpeg_crop_scanline(&g->d, &x, &width);
    g->skipped = g->window.x - x;
}

// Adobe's programs store inks upside down, and so do all others by now. Products are cut and not
// rounded, as TensorFlow does it.
static void rgb_of_cmyk(const decoding *g, uint8_t rgb[3], const uint8_t *cmyk)
{
    bool inverted = g->d.saw_Adobe_marker;
    int k = inverted ? cmyk[3] : 255 - cmyk[3];
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(k * (inverted ? cmyk[c] : 255 - cmyk[c]) / 255);
}

static void put_row(const decoding *g, uint8_t *to, const uint8_t *from)
{
    int64_t channels = g->out->channels, width = g->window.width;
    from += g->skipped * g->colors;
    if (channels == g->colors && g->colors != 4) {
        memcpy(to, from, (size_t)(width * channels));
        return;
    }
    for (int64_t x = 0; x < width; x++, from += g->colors, to += channels) {
        uint8_t rgb[3] = {from[0], from[0], from[0]};
        if (g->colors == 4) rgb_of_cmyk(g, rgb, from);
        else if (g->colors == 3) memcpy(rgb, from, 3);
        if (channels >= 3) memcpy(to, rgb, 3);
        else
            to[0] = g->colors == 1
                        ? rgb[0]
                        : (uint8_t)((rgb[0] * 299 + rgb[1] * 587 + rgb[2] * 114 + 500) / 1000);
        if (channels % 2 == 0) to[channels - 1] = 255;
    }
}

static void read_rows(decoding *g)
{
    int64_t channels = g->out->channels, width = g->window.width;
    // Rows that need nothing done to them are decoded where they belong.
    bool direct = channels == g->colors && g->colors != 4 && g->d.output_width == width;
    JSAMPARRAY row = g->d.mem->alloc_sarray((j_common_ptr)&g->d, JPOOL_IMAGE,
                                            g->d.output_width * (JDIMENSION)g->colors, 1);
    if (g->window.y) jpeg_skip_scanlines(&g->d, (JDIMENSION)g->window.y);
    for (int64_t y = 0; y < g->window.height; y++) {
        uint8_t *to = g->out->pixels + y * width * channels;
        JSAMPROW into = direct ? to : row[0];
        if (jpeg_read_scanlines(&g->d, &into, 1) != 1) refuse(&g->j, "it gives no more rows");
        if (!direct) put_row(g, to, row[0]);
    }
    // What lies below the window is not looked at.
    if (g->d.output_scanline == g->d.output_height) jpeg_finish_decompress(&g->d);
}

static bool decode_guarded(decoding *g, const void *data, size_t size)
{
    if (setjmp(g->j.mark) != 0) return false;
    jpeg_create_decompress(&g->d);
    begin(g, data, size);
    g->status = tli_image_window(&g->window, g->args, g->d.image_height, g->d.image_width, size);
    if (g->status != TL_OK) return true;
    set_output(g);
    jpeg_start_decompress(&g->d);
    cut_columns(g);
    g->status = tl_image_resize_memory(g->out, g->window.height, g->window.width, g->out->channels);
    if (g->status == TL_OK) read_rows(g);
    return true;
}

tl_status tl_jpeg_decode(tl_image *out, const void *data, size_t size, const tl_image_args *args)
{
    static const tl_image_args defaults = {0};
    decoding g = {.j.doing = "reading", .args = args ? args : &defaults, .out = out};
    out->height = out->width = out->channels = 0;
    TL_TRY(tli_image_args_check(g.args));
    g.j.cut_is_fine = g.args->cut_is_fine;
    g.d.err = set_errors(&g.j);
    tl_status st = decode_guarded(&g, data, size) ? g.status : fail(&g.j);
    jpeg_destroy_decompress(&g.d);
    if (st != TL_OK) out->height = out->width = out->channels = 0;
    return st;
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct encoding {
    job j;
    struct jpeg_compress_struct c;
    struct jpeg_destination_mgr to;
    tl_str *out;
    uint8_t buffer[WRITE_BUFFER];
} encoding;

static void open_buffer(j_compress_ptr c)
{
    encoding *e = c->client_data;
    e->to.next_output_byte = e->buffer;
    e->to.free_in_buffer = WRITE_BUFFER;
}

static void add_bytes(encoding *e, size_t size)
{
    tl_str_addn(e->out, (const char *)e->buffer, size);
    if (!e->out->failed) return;
    e->j.no_memory = true;
    longjmp(e->j.mark, 1);
}

static boolean empty_buffer(j_compress_ptr c)
{
    add_bytes(c->client_data,
              WRITE_BUFFER); // all of it, whatever the counters say: the library wants it so
    open_buffer(c);
    return TRUE;
}

static void close_buffer(j_compress_ptr c)
{
    encoding *e = c->client_data;
    add_bytes(e, WRITE_BUFFER - e->to.free_in_buffer);
}

static void set_input(encoding *e, const tl_image *image, const tl_jpeg_encode_args *args)
{
    e->c.client_data = e;
    e->to = (struct jpeg_destination_mgr){.init_destination = open_buffer,
                                          .empty_output_buffer = empty_buffer,
                                          .term_destination = close_buffer};
    e->c.dest = &e->to;
    e->c.image_width = (JDIMENSION)image->width;
    e->c.image_height = (JDIMENSION)image->height;
    e->c.input_components = (int)image->channels;
    e->c.in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&e->c);
    jpeg_set_quality(&e->c, args->quality ? args->quality : DEFAULT_QUALITY, TRUE);
    e->c.dct_method = dct_methods[args->dct];
    if (args->full_colors) e->c.comp_info[0].h_samp_factor = e->c.comp_info[0].v_samp_factor = 1;
    if (args->progressive) jpeg_simple_progression(&e->c);
}

static bool encode_guarded(encoding *e, const tl_image *image, const tl_jpeg_encode_args *args)
{
    if (setjmp(e->j.mark) != 0) return false;
    jpeg_create_compress(&e->c);
    set_input(e, image, args);
    jpeg_start_compress(&e->c, TRUE);
    while (e->c.next_scanline < e->c.image_height) {
        JSAMPROW row =
            image->pixels + (size_t)(e->c.next_scanline * image->width * image->channels);
        jpeg_write_scanlines(&e->c, &row, 1);
    }
    jpeg_finish_compress(&e->c);
    return true;
}

static tl_status check_image(const tl_image *image, const tl_jpeg_encode_args *args)
{
    if (image->channels != 1 && image->channels != 3)
        return TL_FAIL(TL_EINVAL, "a JPEG image has 1 (grey) or 3 (RGB) channels, not %" PRId64,
                       image->channels);
    if (image->width < 1 || image->height < 1 || image->width > JPEG_MAX_DIMENSION
        || image->height > JPEG_MAX_DIMENSION)
        return TL_FAIL(TL_EINVAL,
                       "a JPEG image of %" PRId64 " x %" PRId64
                       " pixels: each side must have 1 to %ld",
                       image->height, image->width, JPEG_MAX_DIMENSION);
    if (args->quality < 0 || args->quality > 100)
        return TL_FAIL(TL_EINVAL, "the quality of a JPEG image is 1 to 100, not %d", args->quality);
    if (args->dct < TL_JPEG_ACCURATE || args->dct > TL_JPEG_FLOAT)
        return TL_FAIL(TL_EINVAL, "there is no cosine transform %d", (int)args->dct);
    return TL_OK;
}

tl_status tl_jpeg_encode(tl_str *out, const tl_image *image, const tl_jpeg_encode_args *args)
{
    static const tl_jpeg_encode_args defaults = {0};
    encoding e = {.j.doing = "writing", .out = out};
    size_t before = out->length;
    tl_status st = TL_OK;
    if (!args) args = &defaults;
    TL_TRY(check_image(image, args));
    e.c.err = set_errors(&e.j);
    if (!encode_guarded(&e, image, args)) {
        st = fail(&e.j);
        if (!out->failed) tl_str_cut(out, before);
    }
    jpeg_destroy_compress(&e.c);
    return st;
}
