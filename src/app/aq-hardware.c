/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/cpuinfo   model name\t: NAME
 * /proc/meminfo   MemTotal: N kB
 * /sys/bus/pci/devices/ADDRESS/class (0x03… is a display controller), vendor, device
 * /proc/driver/nvidia/gpus/ADDRESS/information   Model: \t NAME */
#include "aq-hardware.h"

#include <string.h>

#define FILE_MAX (1 << 20)

static char *read_file(const char *root, const char *path)
{
    g_autofree char *full = g_strconcat(root, path, NULL);
    char *text = NULL;
    gsize n = 0;
    if (!g_file_get_contents(full, &text, &n, NULL))
        return NULL;
    if (n > FILE_MAX || !g_utf8_validate(text, n, NULL))
        g_clear_pointer(&text, g_free);
    return text;
}

/* What stands behind "key…:" in the first line that begins so. */
static char *value_of(const char *text, const char *key)
{
    if (!text)
        return NULL;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **l = lines; *l; l++) {
        const char *colon = g_str_has_prefix(*l, key) ? strchr(*l, ':') : NULL;
        if (!colon)
            continue;
        char *value = g_strstrip(g_strdup(colon + 1));
        if (*value)
            return value;
        g_free(value);
    }
    return NULL;
}

char *aq_hardware_cpu(const char *root)
{
    g_autofree char *text = read_file(root, "/proc/cpuinfo");
    return value_of(text, "model name");
}

guint64 aq_hardware_memory_bytes(const char *root)
{
    g_autofree char *text = read_file(root, "/proc/meminfo");
    g_autofree char *value = value_of(text, "MemTotal");
    guint64 kib = value ? g_ascii_strtoull(value, NULL, 10) : 0;
    return kib > G_MAXUINT64 / 1024 ? 0 : kib * 1024;
}

/* One number of a PCI device: "0x10de\n". */
static guint64 pci_number(const char *root, const char *address, const char *what)
{
    g_autofree char *path = g_strdup_printf("/sys/bus/pci/devices/%s/%s", address, what);
    g_autofree char *text = read_file(root, path);
    return text ? g_ascii_strtoull(text, NULL, 16) : 0;
}

static char *gpu_name(const char *root, const char *address)
{
    guint64 vendor = pci_number(root, address, "vendor"),
            device = pci_number(root, address, "device");
    g_autofree char *path = g_strdup_printf("/proc/driver/nvidia/gpus/%s/information", address);
    g_autofree char *text = read_file(root, path);
    char *model = value_of(text, "Model");
    if (model)
        return model;
    const char *name = vendor == 0x10de   ? "NVIDIA"
                       : vendor == 0x1002 ? "AMD"
                       : vendor == 0x8086 ? "Intel"
                                          : "PCI";
    return g_strdup_printf("%s %04x:%04x", name, (guint)vendor & 0xffff, (guint)device & 0xffff);
}

static int by_text(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **aq_hardware_gpus(const char *root)
{
    g_autofree char *bus = g_strconcat(root, "/sys/bus/pci/devices", NULL);
    g_autoptr(GDir) dir = g_dir_open(bus, 0, NULL);
    g_autoptr(GPtrArray) found = g_ptr_array_new();
    const char *address;
    while (dir && (address = g_dir_read_name(dir)))
        if (pci_number(root, address, "class") >> 16 == 0x03)
            g_ptr_array_add(found, gpu_name(root, address));
    g_ptr_array_sort(found, by_text);
    g_ptr_array_add(found, NULL);
    return (char **)g_ptr_array_steal(found, NULL);
}
