/* SHA-256 beside Python's hashlib, at all lengths where a block begins or ends. */
#include "test.h"

#include "base/inner/sha256.h"

typedef struct sum {
    size_t size; /* byte i is 7 i + size, modulo 256 */
    const char *text;
} sum;

static const sum sums[] = {
    {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {1, "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"},
    {3, "6ab0dba1f4f1dfbb37b4f9eeb092c09fca4900ad32bdcd147d8dde35d6c87c35"},
    {55, "81afe5b788dc2ce138ff83d9b20164db75a94d75d2b2432eea4a0ef605088c72"},
    {56, "2aba54f0ac632420a2b502431408866e40e1d5e430df4cd822642c78ab2eb9c1"},
    {63, "733d3d4ee79ee67145bf73da13588f6f235d37414fc64b14a2f00f1762792f5e"},
    {64, "79322907b3e9d013d7dc2c2f256674dbf733045cde01df3539271c6f5605feb8"},
    {65, "d85c007c6eb440f085afa2b84f6f2bce4658b240e9f62cb1364bf0485a57e720"},
    {119, "6c87eedf096b345de205b702e5223b73b447a3207791ded3ea007ba15ed6736e"},
    {120, "42500cf6a1e3936d6b9e0bcfe296d654b63255e525487d3634d0b15fde591c4d"},
    {127, "68f6ff710276900c0ffbbc57426f67e00c2e01f0750c7edc25ac06b8ce7a8095"},
    {128, "489d55fea9a73af36b6dd0be7b4117d8e5683386d39544e8a44c99a87f368707"},
    {1000, "6b0df76627243d095b0c4400cb658b7e804dd03461cc03aee8fc8fe0bcada168"},
};

static void sums_are_right(void **state)
{
    (void)state;
    uint8_t bytes[1000];
    char text[TLI_SHA256_TEXT];
    for (size_t s = 0; s < TL_COUNT(sums); s++) {
        for (size_t i = 0; i < sums[s].size; i++) bytes[i] = (uint8_t)(7 * i + sums[s].size);
        tli_sha256_text(text, bytes, sums[s].size);
        assert_string_equal(text, sums[s].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
