/* SPDX-License-Identifier: Apache-2.0 */
/* Control payloads: any bytes either give a clear error or lines that can be written again to the
 * same bytes and whose values are refused or read, never misread. */
#include "wire-priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const keys[] = {"proto", "id",   "nonce",  "epoch", "name",
                                       "code",  "text", "roster", "a"};
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_kv kv;
    aq_err err = {0};
    int rc = aq_kv_parse(data, n, &kv, &err);

    if (rc < 0) {
        must(err.code == -rc && err.text[0]);
        return 0;
    }
    for (uint32_t i = 0; i < kv.n_line; i++) {
        must(aq_bytes_put(&b, kv.p + kv.line[i].key, kv.line[i].n_key) == 0 &&
             aq_bytes_puts(&b, "=") == 0);
        must(aq_bytes_put(&b, kv.p + kv.line[i].val, kv.line[i].n_val) == 0 &&
             aq_bytes_puts(&b, "\n") == 0);
    }
    must(b.n == n && (n == 0 || memcmp(b.p, data, n) == 0));
    for (size_t i = 0; i < AQ_LEN(keys); i++) {
        char text[AQ_WIRE_NAME_MAX + 1] = {0};
        uint8_t hex[32];
        uint64_t x = 5;
        uint32_t len = 0;
        const char *v = aq_kv_get(&kv, keys[i], &len);

        rc = aq_kv_u64(&kv, keys[i], false, 1000, &x, &err);
        must(rc == 1 ? v && x <= 1000 : x == 5 && (rc == 0) == !v);
        rc = aq_kv_hex(&kv, keys[i], false, hex, sizeof hex, &err);
        must(rc == 1 ? len == 64 : (rc == 0) == !v);
        rc = aq_kv_text(&kv, keys[i], true, text, sizeof text, &err);
        must(rc == 1 ? v && strlen(text) == len : !v || len > AQ_WIRE_NAME_MAX);
        if (rc == 1) {
            b.n = 0;
            must(aq_kv_put_text(&b, keys[i], text) == 0 && b.n == strlen(keys[i]) + len + 2 &&
                 memcmp(b.p + strlen(keys[i]) + 1, v, len) == 0);
        }
    }
    return 0;
}
