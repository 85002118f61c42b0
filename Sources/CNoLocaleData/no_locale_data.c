#include "no_locale_data.h"

#include <stdint.h>

/* ICU's data, without any of it. GRDB imports Foundation, whose formatters link ICU with 34 MB of data on the world's
 * languages, of which these programs use nothing: the linker takes what is defined here, and leaves that out. What asks
 * ICU finds no such resource for any language.
 *
 * Only where the runtime is linked statically, as in a release: a shared library has its own. With another version of
 * ICU the name is another one, this is not used, and a program is 34 MB larger.
 *
 * Source: ICU's common/ucmndata.h, DataHeader and UDataOffsetTOC. */
#ifdef WITHOUT_LOCALE_DATA
__attribute__((visibility("default"), aligned(16))) const struct {
    uint16_t header_size;
    uint8_t magic1, magic2;
    uint16_t info_size, reserved_word;
    uint8_t is_big_endian, charset_family, sizeof_uchar, reserved_byte;
    uint8_t data_format[4], format_version[4], data_version[4];
    uint8_t padding[8];
    uint32_t count, end[3];
} icudt76_dat = {
    32, 0xda, 0x27, 20, 0, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__, 0, 2, 0, {'C', 'm', 'n', 'D'}, {1, 0, 0, 0},
    {76, 1, 0, 0}, {0}, 0, {0}
};
#endif
