/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli: engine and pool without a window. One subcommand per cli-NAME.c. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const struct {
    const char *name;
    int (*run)(int, char **);
    const char *use;
} commands[] = {
    {"info", cli_info,
     "  aquifer-cli info MODEL [--json]\n      what a model file holds\n"
     "  aquifer-cli info --devices [--json]\n      what this machine has\n"},
    {"chat", cli_chat,
     "  aquifer-cli chat -m MODEL [-p PROMPT] [--system TEXT] [--temp T] [--seed N] [--max N] "
     "[--ctx N] [--kv f32|f16|q8_0] [--draft N] [--threads N] [--backend B] [--json] [--pool [--pc "
     "NAME] [--addr ADDRESS] "
     "[--cut N] [--rows f32|f16|bf16]]\n      one answer (-p), or a conversation\n"},
    {"generate", cli_generate,
     "  aquifer-cli generate MODEL --tokens FILE -n N [--backend B] [--kv f32|f16|q8_0] "
     "[--draft N] [--threads N] --json\n      greedy continuation of tokens\n"},
    {"logits", cli_logits,
     "  aquifer-cli logits MODEL --tokens FILE --out FILE [--backend B] [--kv f32|f16|q8_0] "
     "[--chunk N] [--threads N] [--draft]\n      logits of tokens\n"},
    {"tokenize", cli_tokenize,
     "  aquifer-cli tokenize MODEL --jsonl\n      texts on stdin to token ids\n"},
    {"detokenize", cli_detokenize,
     "  aquifer-cli detokenize MODEL --jsonl [--pieces]\n      token ids on stdin to texts\n"},
    {"render", cli_render,
     "  aquifer-cli render [MODEL] [--template FILE] --jsonl [--ids]\n      chat templates\n"},
    {"bench", cli_bench,
     "  aquifer-cli bench MODEL --prompt N --gen N --threads N --repeat N --json\n      speed on "
     "this machine\n"},
    {"node", cli_node,
     "  aquifer-cli node [--name N] [--secret-file F] [--join ADDRESS] [--model-dir D] [--bind "
     "ADDRESS] [--port N]\n      a PC without a window that computes layers for its pool\n"},
    {"pool", cli_pool,
     "  aquifer-cli pool status|list [--json]\n      this PC and its pool; the PCs there are\n"
     "  aquifer-cli pool pair ADDRESS|NAME [--json]\n"
     "  aquifer-cli pool pair --wait [--bind ADDRESS] [--port N] [--json]\n      pair two PCs: "
     "one waits, the other calls, and both show the same six digits\n"
     "  aquifer-cli pool add ADDRESS [--json]\n      remember where a PC is\n"
     "  aquifer-cli pool remove NAME|ID|ADDRESS [--json]\n      a member out of the pool, or an "
     "added address\n"
     "  aquifer-cli pool permit NAME|ID requests|layers|experts|files on|off [--json]\n      what "
     "a "
     "member may use on this PC\n"
     "  aquifer-cli pool leave [--json]\n      this PC out of its pool\n"
     "  aquifer-cli pool check MODEL [--self | --pc NAME --addr ADDRESS] [--cut N] [--rows "
     "f32|f16|bf16] [--json]\n      the split of a model over two PCs against one PC\n"},
#ifdef AQ_HAVE_API
    {"serve", cli_serve,
     "  aquifer-cli serve -m MODEL [--port N] [--lan [--tls]] [--key KEY]… [--key-file FILE] "
     "[--host "
     "NAME]… "
     "[--origin ORIGIN]… [--alias NAME] [--ctx N] [--parallel N] [--threads N] [--backend B] "
     "[--park DIR [--park-mb N]] [--state DIR] [--json]\n      the model for other programs, in "
     "the "
     "protocols of OpenAI and Anthropic\n"},
#endif
    {"dequant", cli_dequant,
     "  aquifer-cli dequant FILE\n      check decoding against stored floats\n"},
};

static void usage(FILE *f)
{
    fprintf(f, "aquifer-cli " AQ_VERSION "\nusage: aquifer-cli COMMAND …\n\n");
    for (size_t i = 0; i < AQ_LEN(commands); i++)
        fputs(commands[i].use, f);
    fputs("\nB is cpu (the default) or reference (plain and slow, to check against).\n"
          "Exit status: 0 done, 1 refused or failed, 2 wrong use or an unreadable file.\n",
          f);
}

/** A closed standard file would be given to the next file that is opened, a model perhaps, and what is meant for people be written into
 * it. What is put there instead fails: stdin and stdout say so, stderr has nobody who listens. */
static void hold_standard_files(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

/* --help anywhere, but not as a text that was asked for, and -h where a command stands. */
static bool asks_help(int argc, char **argv)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--"); i++) {
        bool is_text = !strcmp(argv[i - 1], "-p") || !strcmp(argv[i - 1], "--system");
        if ((!strcmp(argv[i], "--help") && !is_text) ||
            (!strcmp(argv[i], "-h") && (i == 2 || (i == 3 && argv[2][0] != '-'))))
            return true;
    }
    return false;
}

/* The uses of a command; of one like `pool add` those with this word, if there are any. A use begins with two spaces. */
static void help(const char *use, const char *word)
{
    size_t n_word = strlen(word);

    printf("usage:\n");
    for (int any = 0; any < 2; any++) {
        bool some = false, shown = false;
        for (const char *p = use, *end; *p; p = end) {
            end = strchr(p, '\n');
            end = end ? end + 1 : p + strlen(p);
            if (p[2] != ' ') {
                const char *w = strchr(strchr(p + 2, ' ') + 1, ' ');
                shown = any;
                for (; w && w < end && !shown; w = strpbrk(w + 1, " |\n"))
                    shown = !strncmp(w + 1, word, n_word) && strchr(" |\n", w[1 + n_word]);
                some |= shown;
            }
            if (shown)
                fwrite(p, 1, (size_t)(end - p), stdout);
        }
        if (some)
            return;
    }
}

static int run(int argc, char **argv)
{
    if (argc >= 2 &&
        (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))) {
        usage(stdout);
        return CLI_OK;
    }
    if (argc >= 2 && !strcmp(argv[1], "--version")) {
        printf("aquifer-cli " AQ_VERSION "\n");
        return CLI_OK;
    }
    if (argc < 2) {
        usage(stderr);
        return CLI_CANNOT;
    }
    for (size_t i = 0; i < AQ_LEN(commands); i++)
        if (!strcmp(argv[1], commands[i].name)) {
            if (asks_help(argc, argv)) {
                help(commands[i].use, argv[2]);
                return CLI_OK;
            }
            return commands[i].run(argc - 1, argv + 1);
        }
    return cli_error(CLI_CANNOT, argv[1], "no such command (aquifer-cli --help lists them)");
}

static bool timing_asked;

bool cli_timing(void)
{
    return timing_asked;
}

/* AQ_TIMING=1: each request and each window of it, on stderr. */
static void timing_cb(void *user, int level, const char *line)
{
    (void)user;
    (void)level;
    if (!strncmp(line, "engine ", 7) && (strstr(line, " window=") || strstr(line, " request ")))
        fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    const char *timing = getenv("AQ_TIMING");

    hold_standard_files();
    timing_asked = timing && !strcmp(timing, "1");
    if (timing_asked)
        aq_log_set(timing_cb, NULL, AQ_LOG_DEBUG);
    signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error like a full disk */
    int rc = run(argc, argv);
    return rc == CLI_OK ? cli_flush() : rc; /* what was lost on the way was not done */
}
