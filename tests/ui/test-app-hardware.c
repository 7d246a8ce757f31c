/* SPDX-License-Identifier: Apache-2.0 */
/* What the first page says of a PC, from trees that stand in for /. */
#include <ftw.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "aq-hardware.h"

typedef char Root;

static char *root_new(void)
{
    GError *error = NULL;
    char *root = g_dir_make_tmp("aq-hardware-XXXXXX", &error);
    g_assert_no_error(error);
    return root;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    return remove(path);
}

static void root_free(char *root)
{
    g_assert_cmpint(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), ==, 0);
    g_free(root);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Root, root_free)

static void put(const char *root, const char *path, const char *text)
{
    GError *error = NULL;
    g_autofree char *full = g_strconcat(root, path, NULL);
    g_autofree char *dir = g_path_get_dirname(full);
    g_assert_cmpint(g_mkdir_with_parents(dir, 0700), ==, 0);
    g_file_set_contents(full, text, -1, &error);
    g_assert_no_error(error);
}

static void put_pci(const char *root, const char *address, const char *class, const char *vendor,
                    const char *device)
{
    const char *const names[] = {"class", "vendor", "device"}, *const texts[] = {class, vendor,
                                                                                 device};
    for (int i = 0; i < 3; i++) {
        g_autofree char *path = g_strdup_printf("/sys/bus/pci/devices/%s/%s", address, names[i]);
        put(root, path, texts[i]);
    }
}

static void test_cpu(void)
{
    g_autoptr(Root) root = root_new();
    put(root, "/proc/cpuinfo",
        "processor\t: 0\nmodel\t\t: 17\nmodel name\t: A Fast One @ 3 GHz  \nmodel name\t: not "
        "this\n");
    g_autofree char *name = aq_hardware_cpu(root);
    g_assert_cmpstr(name, ==, "A Fast One @ 3 GHz");
    put(root, "/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 48.00\n");
    g_assert_null(aq_hardware_cpu(root));
    put(root, "/proc/cpuinfo", "model name\t:\n");
    g_assert_null(aq_hardware_cpu(root));
    put(root, "/proc/cpuinfo", "model name\t: \xff\n");
    g_assert_null(aq_hardware_cpu(root));
    g_assert_null(aq_hardware_cpu("/nowhere/at/all"));
}

static void test_memory(void)
{
    g_autoptr(Root) root = root_new();
    put(root, "/proc/meminfo", "MemTotal:       16384000 kB\nMemFree: 1 kB\n");
    g_assert_cmpuint(aq_hardware_memory_bytes(root), ==, 16384000ull * 1024);
    put(root, "/proc/meminfo", "MemTotal:       18446744073709551615 kB\n");
    g_assert_cmpuint(aq_hardware_memory_bytes(root), ==, 0);
    g_assert_cmpuint(aq_hardware_memory_bytes("/nowhere/at/all"), ==, 0);
}

static void test_gpus(void)
{
    g_autoptr(Root) root = root_new();
    g_auto(GStrv) none = aq_hardware_gpus(root);
    g_assert_cmpuint(g_strv_length(none), ==, 0);
    put_pci(root, "0000:00:00.0", "0x060000\n", "0x8086\n", "0x1237\n"); /* a bridge */
    put_pci(root, "0000:01:00.0", "0x030000\n", "0x10de\n", "0x2684\n");
    put_pci(root, "0000:02:00.0", "0x030200\n", "0x10de\n", "0x2335\n");
    put_pci(root, "0000:03:00.0", "0x038000\n", "0x1002\n", "0x744c\n");
    put_pci(root, "0000:04:00.0", "0x030000\n", "0x8086\n", "0xa7a0\n");
    put_pci(root, "0000:05:00.0", "0x030000\n", "0x1234\n", "0x1111\n");
    put(root, "/proc/driver/nvidia/gpus/0000:02:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ: 5\n");
    g_auto(GStrv) gpus = aq_hardware_gpus(root);
    g_autofree char *text = g_strjoinv("|", gpus);
    g_assert_cmpstr(text, ==,
                    "AMD 1002:744c|Intel 8086:a7a0|NVIDIA 10de:2684|NVIDIA H200|PCI 1234:1111");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/hardware/cpu", test_cpu);
    g_test_add_func("/hardware/memory", test_memory);
    g_test_add_func("/hardware/gpus", test_gpus);
    return g_test_run();
}
