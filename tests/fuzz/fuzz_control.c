/* Messages of the control channel: what is read can be written again, and gives the same bytes but
 * for control characters. */
#include "fuzz.h"

#include "comm/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[TLI_CONTROL_TEXT + 64];
    size_t at = 0, used;
    for (;;) {
        tli_control_message m, again;
        if (tli_control_read(&m, &used, data + at, size - at) != TL_OK) {
            must(used == 0 && strstr(tl_error_message(), "control channel"),
                 "a failure without a good message");
            return 0;
        }
        if (!used) return 0;
        must(used <= size - at && used <= TLI_CONTROL_MOST, "more than there is");
        must(memchr(m.text, '\0', sizeof m.text), "a text without an end");
        size_t length = tli_control_write(bytes, &m), read;
        must(length == used, "another length");
        must(tli_control_read(&again, &read, bytes, length) == TL_OK && read == length,
             "what was written cannot be read");
        must(memcmp(&m, &again, sizeof m) == 0, "another message");
        at += used;
    }
}
