/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: renderings of tests/text/templates.jsonl, spans of what a user wrote, errors with their lines, limits, failing
 * allocations. usage: test-text-template tests/text */
#include "tap.h"
#include "torture.h"
#include "jinja-priv.h"
#include "text-data.h"

#include <locale.h>

/* A source as the name of a case: on one line and without what TAP reads. */
static const char *named(const char *src)
{
    static char buf[80];
    size_t n = 0;
    for (; src[n] && n < sizeof buf - 1; n++)
        buf[n] = src[n] == '#' || src[n] < ' ' || src[n] > '~' ? ' ' : src[n];
    buf[n] = 0;
    return buf;
}

/* Render; 0 or -AQ_E_*. */
static int render(const char *src, size_t n, const aq_json *vars, aq_rendered *ret, aq_err *err)
{
    AQ_AUTO(aq_tmpl_free) aq_tmpl *t = NULL;
    int rc = aq_tmpl_new(src, n, &t, err);
    return rc < 0 ? rc : aq_tmpl_render_within(t, vars, 2000000, 64u << 20, ret, err);
}

static void test_cases(const char *dir)
{
    size_t n;
    AQ_AUTOFREE char *file = data_read(dir, "templates.jsonl", &n);
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);

    for (char *line = file, *end; (end = strchr(line, '\n')); line = end + 1) {
        const aq_json *j = data_parse(a, line, (size_t)(end - line)), *src = aq_json_get(j, "src"),
                      *out = aq_json_get(j, "out");
        AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
        aq_err err = {0};
        int rc = render(src->str, src->n, aq_json_get(j, "in"), &r, &err);
        bool good = out ? rc == 0 && r.text.n == out->n &&
                              !memcmp(r.text.n ? (char *)r.text.p : "", out->str, out->n)
                        : rc < 0 && err.code == -rc && err.text[0];
        ok(good, "%s: %s", out ? "renders" : "refused", named(aq_json_str(j, "src")));
        if (!good)
            printf("# %.*s\n# got %d %s %.*s\n", (int)(end - line), line, rc, err.text,
                   (int)r.text.n, r.text.n ? (char *)r.text.p : "");
    }
}

/* The output with ⟦ and ⟧ around the user's parts. */
static bool shows(const char *src, const char *vars, const char *want)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    aq_err err = {0};
    uint32_t k = 0;
    bool good = true, open = false;

    if (render(src, strlen(src), data_parse(a, vars, strlen(vars)), &r, &err) < 0) {
        printf("# %s\n", err.text);
        return false;
    }
    for (uint32_t i = 0; i <= r.text.n; i++) {
        if (open && r.user[k].end == i) {
            good &= aq_bytes_puts(&b, "⟧") == 0;
            open = false;
            k++;
        }
        if (!open && k < r.n_user && r.user[k].start == i) {
            good &= r.user[k].end > i && aq_bytes_puts(&b, "⟦") == 0;
            open = true;
        }
        if (i < r.text.n)
            good &= aq_bytes_put(&b, r.text.p + i, 1) == 0;
    }
    const char *got = aq_bytes_str(&b);
    good &= k == r.n_user && !strcmp(got ? got : "", want);
    if (!good)
        printf("# got  %s\n# want %s\n", got, want);
    return good;
}

static void test_spans(void)
{
    static const char m[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"  Héllo <b> "
                            "\\n\"}],\"bos_token\":\"<s>\",\"x\":\"ab\",\"y\":\"<ab>\"}",
                      tool[] = "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                               "\"arguments\":{\"k\\n\":\"v\\\"w\"},"
                               "\"parameters\":{\"properties\":{\"p\":{\"type\":\"string\"}}}}}]}",
                      two[] = "{\"messages\":[\"aXbXc\",\"q\"]}";
    static const struct {
        const char *src, *vars, *want;
    } tab[] = {
        {"<|u|>{{ messages[0].content }}<|e|>", m, "<|u|>⟦  Héllo <b> \n⟧<|e|>"},
        {"{{ messages[0].role }}", m, "user"},
        {"{{ bos_token }}{{ x }}{{ y }}", m, "<s>ab⟦<ab>⟧"},
        {"{{ messages[0].content | trim }}|{{ messages[0]['content'].lstrip() }}", m,
         "⟦Héllo <b>⟧|⟦Héllo <b> \n⟧"},
        {"{{ '<' + messages[0].content | trim | upper + '>' }}", m, "<⟦HÉLLO <B>⟧>"},
        {"{{ messages[0].content | trim ~ messages[0].content | trim }}", m,
         "⟦Héllo <b>⟧⟦Héllo <b>⟧"},
        {"{{ messages }}", m, "[{'role': 'user', 'content': '⟦  Héllo <b> \\n⟧'}]"},
        {"{{ messages[0].content | tojson }}{{ messages[0].content | tojson(ensure_ascii=true) }}",
         m, "\"⟦  Héllo <b> \\n⟧\"\"⟦  H\\u00e9llo <b> \\n⟧\""},
        {"{{ tools[0] | tojson }}", tool,
         "{\"type\": \"⟦function⟧\", \"function\": {\"name\": \"⟦f⟧\", \"arguments\": {\"⟦k\\n⟧\": "
         "\"⟦v\\\"w⟧\"}, \"parameters\": "
         "{\"properties\": {\"⟦p⟧\": {\"type\": \"⟦string⟧\"}}}}}"},
        {"{% for k, v in tools[0].function.arguments | items %}{{ k }}={{ v }}{% endfor %}", tool,
         "⟦k\n⟧=⟦v\"w⟧"},
        {"{{ messages[0].split('X') }}", two, "['⟦a⟧', '⟦b⟧', '⟦c⟧']"},
        {"{{ messages[0].split('X')[1] ~ '-' ~ messages[0].split('X')[-1] }}", two, "⟦b⟧-⟦c⟧"},
        {"{{ messages[0].replace('X', '<|e|>') }}", two, "⟦a<|e|>b<|e|>c⟧"},
        {"{{ 'pXq'.replace('X', messages[1]) }}", two, "p⟦q⟧q"},
        {"{{ ('<' ~ messages[0] ~ '>').replace('a', 'AA').replace('>', '!') }}", two, "<⟦AAXbXc⟧!"},
        {"{{ messages | join('<|s|>') }}", two, "⟦aXbXc⟧<|s|>⟦q⟧"},
        {"{{ messages[0][1:4] }}{{ messages[0][::-1] }}{{ messages[0][0] }}", two,
         "⟦XbX⟧⟦cXbXa⟧⟦a⟧"},
        {"{{ ('-' ~ messages[0] ~ '-' ~ messages[1])[::-2] }}", two, "⟦q⟧⟦cba⟧"},
        {"{{ ('1\\n' ~ messages[1] ~ '\\n2') | indent(2) }}", two, "1\n  ⟦q⟧\n  2"},
        {"{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(messages[1]) }}{{ f(messages[1]) | upper | "
         "trim('<') }}",
         two, "<⟦q⟧>⟦Q⟧>"},
        {"{% set t %}({{ messages[1] }}){% endset %}{{ t | length }}{{ t }}", two, "3(⟦q⟧)"},
        {"{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s ~ m ~ '|' %}{% "
         "endfor %}{{ ns.s }}",
         two, "⟦aXbXc⟧|⟦q⟧|"},
        {"{% for c in messages[0] %}{{ c }}.{% endfor %}", two, "⟦a⟧.⟦X⟧.⟦b⟧.⟦X⟧.⟦c⟧."},
        {"{{ messages[1] * 2 }}{{ messages | map('upper') | first }}", two, "⟦q⟧⟦q⟧⟦AXBXC⟧"},
        {"{{ '<%s|%5s>' % (messages[1], messages[1]) }}", two, "<⟦q⟧|    ⟦q⟧>"},
        {"{{ '[{:>3}{m!r}]'.format(messages[1], m=messages[1]) }}", two, "[  ⟦q⟧'⟦q⟧']"},
        {"{{ messages[1] | center(5) }}{{ messages[0] | truncate(4, true, '', 0) }}", two,
         "  ⟦q⟧  ⟦aXbX⟧"},
        {"{{ messages[1].ljust(3, '<') }}{{ messages[1] | format }}", two, "⟦q⟧<<⟦q⟧"},
        {"{% set c = cycler(messages[1], 'x') %}{{ c.next() ~ c.next() ~ c.next() }}", two,
         "⟦q⟧x⟦q⟧"},
        {"{% macro f() %}{{ kwargs }}{% endmacro %}{{ f(**tools[0].function.arguments) }}", tool,
         "{'⟦k\\n⟧': '⟦v\"w⟧'}"},
        {"{{ messages }}", "{\"messages\":[{\"role\":\"<|x|>\",\"<k>\":1,\"k\":2}]}",
         "[{'role': '⟦<|x|>⟧', '⟦<k>⟧': 1, 'k': 2}]"},
    };
    for (size_t i = 0; i < AQ_LEN(tab); i++)
        ok(shows(tab[i].src, tab[i].vars, tab[i].want), "spans: %s", named(tab[i].src));
}

static void test_errors(void)
{
    static const struct {
        const char *src;
        int rc;
        const char *says;
    } tab[] = {
        {"a\nb\n{{ 1 +* }}", -AQ_E_FORMAT, "line 3"},
        {"\n{% if x %}\n\n{{ y.z }}{% endif %}", -AQ_E_FORMAT, "line 4: 'y' is undefined"},
        {"{{ x.nope.z }}", -AQ_E_FORMAT, "a int has no 'nope'"},
        {"\n\n{{ x | from_json }}", -AQ_E_UNSUPPORTED, "line 3: the filter 'from_json'"},
        {"{% if false %}{{ x | from_json }}{% endif %}{{ x is odd_one }}", -AQ_E_UNSUPPORTED,
         "the test 'odd_one'"},
        {"\n{% include 'x' %}", -AQ_E_UNSUPPORTED, "line 2: the statement 'include'"},
        {"\n{% for x in [1] %}\n", -AQ_E_FORMAT, "line 2: 'for' has no end"},
        {"{{ raise_exception('Roles must alternate.') }}", -AQ_E_INVAL, "Roles must alternate."},
        {"\xFF", -AQ_E_FORMAT, "UTF-8"},
        {"{{ 99999999999999999999 }}", -AQ_E_LIMIT, "64 bits"},
        {"{{ 9223372036854775807 + x }}", -AQ_E_LIMIT, "64 bits"},
        /* what never ends, or would take all memory */
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", -AQ_E_LIMIT, "deep"},
        {"{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
         -AQ_E_LIMIT, "steps"},
        {"{% for n in [1] recursive %}{{ loop([1]) }}{% endfor %}", -AQ_E_LIMIT, "deep"},
        {"{% set ns = namespace(s='x') %}{% for a in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% "
         "endfor %}",
         -AQ_E_LIMIT, "memory"},
        {"{% set ns = namespace(s=[1]) %}{% for a in range(64) %}{% set ns.s = ns.s + ns.s %}{% "
         "endfor %}",
         -AQ_E_LIMIT, ""},
        {"{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a }}", -AQ_E_LIMIT, "deep"},
        {"{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a | tojson }}", -AQ_E_FORMAT,
         "namespace"},
        {"{{ 'a' * 10000000000 }}", -AQ_E_LIMIT, ""},
        {"{{ [1] * 10000000000 }}", -AQ_E_LIMIT, ""},
        {"{{ range(10000000000) }}", -AQ_E_LIMIT, "range"},
        {"{{ 'x'.zfill(10000000000) }}", -AQ_E_LIMIT, ""},
        {"{{ 'x' | indent(10000000000) }}", -AQ_E_LIMIT, ""},
        {"{{ 'x'.ljust(10000000000) }}", -AQ_E_LIMIT, "filled up"},
        {"{{ '%9999999999s' % x }}", -AQ_E_LIMIT, "filled up"},
        {"{{ '%*d' % (9999999, x) }}", -AQ_E_LIMIT, "filled up"},
        {"{{ '{:0999999999}'.format(x) }}", -AQ_E_LIMIT, "filled up"},
        {"{{ '%.9999f' % x }}", -AQ_E_LIMIT, "digits"},
        {"{{ '%s %s' % x }}", -AQ_E_FORMAT, "fewer values"},
        {"{{ '{0}{}'.format(x) }}", -AQ_E_FORMAT, "without a number"},
        {"{{ '{:{:{}}}'.format(x, x, x) }}", -AQ_E_FORMAT, "too deeply"},
        {"{{ '{:09,}'.format(x) }}", -AQ_E_UNSUPPORTED, "groups of digits"},
        {"{{ range(**x) }}", -AQ_E_FORMAT, "no dict"},
        {"{{ lipsum() }}", -AQ_E_UNSUPPORTED, "by chance"},
        {"{{ [x] | random }}", -AQ_E_UNSUPPORTED, "chance"},
        {"{{ x | striptags }}", -AQ_E_UNSUPPORTED, "'striptags' is not supported"},
    };
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_json *vars = data_parse(a, "{\"x\":1}", 7);
    for (size_t i = 0; i < AQ_LEN(tab); i++) {
        AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
        aq_err err = {0};
        int rc = render(tab[i].src, strlen(tab[i].src), vars, &r, &err);
        ok(rc == tab[i].rc && strstr(err.text, tab[i].says) && !r.text.p, "refused: %s (%s)",
           named(tab[i].src), err.text);
    }
    aq_rendered r = {0};
    AQ_AUTO(aq_tmpl_free) aq_tmpl *t = NULL;
    ok(aq_tmpl_new("x", 1, &t, NULL) == 0 &&
           aq_tmpl_render(t, data_parse(a, "[1]", 3), &r, NULL) == -AQ_E_INVAL,
       "variables must be an object");
}

static void test_locale(void)
{
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "de_DE"};
    static const char src[] =
        "{{ 0.5 + x }} {{ '1.5' | float }} {{ '%.2f' % x }} {{ x | round(1) }}";
    const char *got = NULL;

    for (size_t i = 0; !got && i < AQ_LEN(commas); i++)
        got = setlocale(LC_NUMERIC, commas[i]);
    if (!got) {
        tap_skip("a point in a language of commas", "no such locale is installed");
        return;
    }
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    int rc = render(src, strlen(src), data_parse(a, "{\"x\":2.25}", 10), &r, NULL);
    static const char want[] = "2.75 1.5 2.25 2.2";
    ok(rc == 0 && r.text.n == strlen(want) && !memcmp(r.text.p, want, r.text.n),
       "numbers of templates have points in a language of commas");
    ok(strtod("1,5", NULL) == 1.5, "which the thread keeps");
    setlocale(LC_NUMERIC, "C");
}

/* A part repeated n times, between a beginning and an end. */
static int repeated(const char *head, const char *part, uint32_t n, const char *tail)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    int rc = aq_bytes_puts(&b, head);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = aq_bytes_puts(&b, part);
    if (rc == 0)
        rc = aq_bytes_puts(&b, tail);
    return rc < 0 ? rc : render((char *)b.p, b.n, data_parse(a, "{\"x\":\"a\"}", 9), &r, NULL);
}

static void test_nesting(void)
{
    ok(repeated("{{ ", "(", 5000, "1") == -AQ_E_LIMIT, "5,000 brackets");
    ok(repeated("{{ ", "-", 5000, "1 }}") == -AQ_E_LIMIT, "5,000 signs");
    ok(repeated("{{ ", "not ", 5000, "1 }}") == -AQ_E_LIMIT, "5,000 times not");
    ok(repeated("{{ 1", " if 1 else 1", 5000, " }}") == -AQ_E_LIMIT, "5,000 conditions");
    ok(repeated("", "{% if 1 %}", 5000, "") == -AQ_E_LIMIT, "5,000 blocks");
    ok(repeated("{{ 1", "+1", 100000, " }}") == -AQ_E_LIMIT, "a sum of 100,000 numbers");
    ok(repeated("{{ x", "|upper", 10000, " }}") == -AQ_E_LIMIT, "10,000 filters in a row");
    ok(repeated("{% if x == 'q' %}b", "{% elif x == 'q' %}c", 5000, "{% endif %}") == 0,
       "5,000 alternatives are no nesting");
    ok(repeated("{{ x", " ~ x", 5000, " }}") == 0, "neither are 5,000 joined texts");
    ok(repeated("", "{{ x }}\n", 5000, "") == 0, "nor 5,000 outputs");
}

/* What `whole` shows for a template with the user's text c, as the texts of its spans joined by '|'. */
static bool whole(const char *tmpl, const char *c, const char *want)
{
    AQ_AUTO(aq_tmpl_free) aq_tmpl *t = NULL;
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    char vars[200], got[200] = "";
    snprintf(vars, sizeof vars, "{\"messages\":[{\"content\":\"%s\"}]}", c);
    if (aq_tmpl_new(tmpl, strlen(tmpl), &t, NULL) < 0 ||
        aq_tmpl_render_whole(t, data_parse(a, vars, strlen(vars)), &r, NULL) < 0)
        return false;
    for (uint32_t i = 0; i < r.n_whole; i++) {
        size_t n = strlen(got);
        snprintf(got + n, sizeof got - n, "%s%.*s", i ? "|" : "",
                 (int)(r.whole[i].end - r.whole[i].start),
                 (const char *)r.text.p + r.whole[i].start);
    }
    printf("# %s\n", got);
    return !strcmp(got, want);
}

static void test_whole(void)
{
    ok(whole("[{{ messages[0].content }}]", " a b ", " a b "), "a string that came through");
    ok(whole("[{{ messages[0].content | trim }}]", " a b ", "a b"), "one that was trimmed");
    ok(whole("{{ messages[0].content | trim }}{{ messages[0].content | tojson }}", "a b \\n",
             "a b|a b"),
       "one that was trimmed at one place and is escaped at another");
    ok(whole("[{{ messages[0].content.split('/')[1] }}]", "a/b", ""), "a piece of one");
    ok(whole("{{ messages[0].content.split('/') | join('-') }}", "a/b", "a-b"),
       "one that was taken apart and joined again");
    ok(whole("{{ messages[0].content | upper }}", "string", "STRING"), "one that was changed");
    ok(whole("{% set c = messages[0].content %}{{ c }}{{ '!' if c == 'x' }}", "x", ""),
       "a word that the template knows");
    ok(whole("{% set c = messages[0].content %}{{ c }}{{ '!' if c == 'x' }}", "y", "y"),
       "another word");
    ok(whole("{% set c = messages[0].content %}{% if c == 'x' %}{% endif %}{{ c }}", "x", "x"),
       "a word that is compared to no effect");
    ok(whole("{% set c = messages[0].content %}{{ c }}{{ '!' if c.startswith('<') }}", "<a", ""),
       "one whose beginning decides");
}

static void test_loops(void)
{
    ok(shows("{% for i in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{}", "aba"),
       "loop.cycle");
    ok(shows("{% for i in [1, 1, 2] %}{{ loop.changed(i) }} {% endfor %}", "{}",
             "True False True "),
       "loop.changed");
    ok(shows("{% for i in [1, 2] %}{% if i %}{% break %}{% endif %}{% else %}none{% endfor %}",
             "{}", "none"),
       "else also runs when every body was left early");
}

static void test_clock(void)
{
    aq_wall_set(1772874304); /* 2026-03-07 09:05:04 UTC */
    ok(shows("{{ strftime_now('%Y-%m-%d') }}|{{ strftime_now('%B %-d') }}|{{ strftime_now is "
             "defined }}",
             "{}", "2026-03-07|March 7|True"),
       "the date comes from the clock, in English");
    aq_wall_set(-1);
}

/* A prompt of 4 MB, built up by joining, takes time in proportion to its length. */
static void test_large(void)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    static const char src[] =
        "{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s + '<|u|>' + "
        "m.content | trim + '<|e|>' %}{% endfor %}{{ ns.s }}";
    int rc = aq_bytes_puts(&b, "{\"messages\":[");
    for (int i = 0; i < 20000 && rc == 0; i++)
        rc = aq_bytes_putf(&b, "%s{\"role\":\"user\",\"content\":\" %0200d \"}", i ? "," : "", i);
    ok(rc == 0 && aq_bytes_puts(&b, "]}") == 0 &&
           render(src, sizeof src - 1, data_parse(a, (char *)b.p, b.n), &r, NULL) == 0 &&
           r.text.n == 20000 * 210 && r.n_user == 20000,
       "20,000 messages joined one by one");
}

static const aq_json *torture_vars;
static int parse_and_render(void *user)
{
    static const char src[] = "{% macro f(a, b=2) %}{{ a | upper }}{{ b }}{% endmacro %}{% for m "
                              "in messages if m.role %}{{ loop.index ~ f(m.content) }}"
                              "{{ m | tojson(indent=1) }}{{ m.content.split(' ') | sort | "
                              "join('-') }}{% set x = [m, {'a': m}] %}{{ x }}{% endfor %}";
    AQ_AUTO(aq_tmpl_free) aq_tmpl *t = NULL;
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    int rc = aq_tmpl_new(src, sizeof src - 1, &t, NULL);
    return rc < 0 ? rc : aq_tmpl_render(t, torture_vars, &r, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    setenv("TZ", "UTC", 1);
    test_cases(argv[1]);
    test_spans();
    test_errors();
    test_nesting();
    test_locale();
    test_clock();
    test_whole();
    test_loops();
    test_large();
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    static const char vars[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"b "
                               "a\"},{\"role\":\"user\",\"content\":\"d\\nc\"}]}";
    torture_vars = data_parse(a, vars, sizeof vars - 1);
    torture("template", parse_and_render, NULL);
    return tap_done();
}
