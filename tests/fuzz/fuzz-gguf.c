/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF: any bytes, as a file or as a model card, give a clear error or a model whose tensors can be read and whose card makes
 * the same model again. */
#include "aq/engine.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

static void check_error(int rc, const aq_err *err)
{
    must(err->code == -rc && err->text[0] && !strchr(err->text, '\n'));
    must(err->code == AQ_E_FORMAT || err->code == AQ_E_UNSUPPORTED || err->code == AQ_E_LIMIT ||
         err->code == AQ_E_NOMEM || err->code == AQ_E_IO);
}

static void check_model(const aq_model *m)
{
    const aq_model_info *in = aq_model_get_info(m);
    uint64_t sum = in->ends_bytes;
    must(in->arch && in->name && in->tok_model && in->tok_pre);
    for (uint32_t i = 0; i < in->n_layer; i++)
        sum += in->layer_bytes[i];
    must(sum <= in->file_bytes);
}

/** Its card makes a model of the same figures, and the same card again. */
static void check_card(const aq_model *m)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes card = {0}, again = {0};
    AQ_AUTO(aq_model_free) aq_model *c = NULL;
    if (aq_model_card(m, &card, NULL) < 0)
        return;
    must(aq_model_from_card(NULL, card.p, card.n, &c, NULL) == 0 &&
         aq_model_card(c, &again, NULL) == 0);
    must(again.n == card.n && !memcmp(again.p, card.p, card.n));
    must(aq_model_get_info(c)->n_param == aq_model_get_info(m)->n_param);
}

static void as_file(const char *path, uint32_t flags)
{
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    aq_wsrc w = {0};
    aq_err err = {0};
    int rc = aq_model_open(NULL, path, flags, &m, &w, &err);
    if (rc < 0) {
        must(!m && !w.self);
        check_error(rc, &err);
        return;
    }
    check_model(m);
    uint8_t b;
    uint32_t n_tensor = 0;
    for (uint32_t i = 0; i < aq_model_get_info(m)->n_type; i++)
        n_tensor += aq_model_get_info(m)->type[i].n_tensor;
    for (uint32_t i = 0; i < n_tensor; i++)
        must(w.read(w.self, i, 0, &b, 1, &err) == 0);
    must(w.read(w.self, n_tensor, 0, &b, 1, &err) == -AQ_E_INVAL);
    aq_wsrc_close(&w);
    if (!flags)
        check_card(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[48];
    int fd = memfd_create("gguf", MFD_CLOEXEC);
    must(fd >= 0 && (!n || write(fd, data, n) == (ssize_t)n));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    as_file(path, 0);
    as_file(path, AQ_OPEN_VOCAB);
    close(fd);

    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    aq_err err = {0};
    int rc = aq_model_from_card(NULL, data, n, &m, &err);
    if (rc < 0) {
        check_error(rc, &err);
        return 0;
    }
    check_model(m);
    check_card(m);
    return 0;
}
