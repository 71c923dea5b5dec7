/* Limits of the cgroups that this process is in. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One hierarchy of cgroups: version 2, or the one of version 1 that has the controller. */
typedef struct hierarchy {
    bool v2;
    const char *controller;
    tli_cgroup_read *read;
    char path[PATH_MAX];  /* of this process's cgroup, from the hierarchy's own root */
    char mount[PATH_MAX]; /* where the file system shows it */
    char shown[PATH_MAX]; /* which path of the hierarchy is shown there */
} hierarchy;

static bool join_path(char out[PATH_MAX], const char *a, const char *b, const char *c)
{
    int length = snprintf(out, PATH_MAX, "%s%s%s", a, b, c);
    return length >= 0 && length < PATH_MAX;
}

/* Whether `item` is one of the words between commas. */
static bool list_has(const char *list, const char *item)
{
    size_t length = strlen(item);
    for (; list; list = strchr(list, ',')) {
        if (*list == ',') list++;
        if (strncmp(list, item, length) == 0 && (!list[length] || list[length] == ',')) return true;
    }
    return false;
}

/* Calls fn for each line of a file, its newline cut off, until fn returns true. */
static bool for_lines(const char *root, const char *file, bool (*fn)(char *line, hierarchy *h),
                      hierarchy *h)
{
    char path[PATH_MAX];
    FILE *f = join_path(path, root, file, "") ? fopen(path, "re") : NULL;
    if (!f) return false;
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    while (!found && getline(&line, &capacity, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        found = fn(line, h);
    }
    free(line);
    fclose(f);
    return found;
}

/* "4:cpu,cpuacct:/docker/12ab" in version 1, "0::/user.slice" in version 2. */
static bool take_own_path(char *line, hierarchy *h)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return false;
    *controllers++ = '\0';
    *path++ = '\0';
    bool matches =
        h->v2 ? strcmp(line, "0") == 0 && !*controllers : list_has(controllers, h->controller);
    // A path that leads out of what this process may see cannot be followed; its visible end can.
    if (matches) snprintf(h->path, sizeof h->path, "%s", strstr(path, "/..") ? "/" : path);
    return matches;
}

/* Spaces and the like are written as \040 in the table of mounts. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *p = text; *p; to++) {
        bool octal = p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7'
                     && p[3] >= '0' && p[3] <= '7';
        *to = octal ? (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0')) : *p;
        p += octal ? 4 : 1;
    }
    *to = '\0';
}

/* "31 23 0:26 /shown /mount rw,nosuid shared:9 - cgroup2 source options" */
static bool take_mount(char *line, hierarchy *h)
{
    char *fields[5], *save, *tail = strstr(line, " - ");
    if (!tail) return false;
    *tail = '\0';
    for (int i = 0; i < 5; i++)
        if (!(fields[i] = strtok_r(i ? NULL : line, " ", &save))) return false;
    char *type = strtok_r(tail + 3, " ", &save), *source = strtok_r(NULL, " ", &save);
    char *options = strtok_r(NULL, " ", &save);
    if (!type || !source || !options) return false;
    bool matches = h->v2 ? strcmp(type, "cgroup2") == 0
                         : strcmp(type, "cgroup") == 0 && list_has(options, h->controller);
    if (!matches) return false;
    unescape(fields[3]);
    unescape(fields[4]);
    snprintf(h->shown, sizeof h->shown, "%s", fields[3]);
    snprintf(h->mount, sizeof h->mount, "%s", fields[4]);
    return true;
}

int tli_cgroup_numbers(const char *directory, const char *file, long long out[2])
{
    char path[PATH_MAX];
    FILE *f = join_path(path, directory, file, "") ? fopen(path, "re") : NULL;
    if (!f) return 0;
    int count = fscanf(f, "%lld %lld", &out[0], &out[1]);
    fclose(f);
    return count;
}

static void take_smaller(double *limit, double other)
{
    if (other > 0 && (*limit == 0 || other < *limit)) *limit = other;
}

/* The smallest limit from this process's cgroup up to the highest one that is shown. */
static double hierarchy_limit(const char *root, hierarchy *h)
{
    if (!for_lines(root, "/proc/self/cgroup", take_own_path, h)) return 0;
    if (!for_lines(root, "/proc/self/mountinfo", take_mount, h)) {
        snprintf(h->mount, sizeof h->mount, "/sys/fs/cgroup%s%s", h->v2 ? "" : "/",
                 h->v2 ? "" : h->controller);
        snprintf(h->shown, sizeof h->shown, "/");
    }
    // Inside a container the mount often shows only the part from the container's cgroup on.
    size_t hidden = strcmp(h->shown, "/") == 0 ? 0 : strlen(h->shown);
    bool below = strncmp(h->path, h->shown, hidden) == 0
                 && (!hidden || !h->path[hidden] || h->path[hidden] == '/');
    char directory[PATH_MAX];
    if (!join_path(directory, root, h->mount, "")) return 0;
    size_t top = strlen(directory);
    if (!join_path(directory, root, h->mount, below ? h->path + hidden : "")) return 0;
    double limit = 0;
    for (;;) {
        take_smaller(&limit, h->read(directory, h->v2));
        char *slash = strrchr(directory, '/');
        if (!slash || strlen(directory) <= top) break;
        *slash = '\0';
        if (strlen(directory) < top) break;
    }
    return limit;
}

double tli_cgroup_limit(const char *root, const char *controller, tli_cgroup_read *read)
{
    double limit = 0;
    for (int v2 = 0; v2 < 2; v2++) {
        hierarchy h = {.v2 = v2, .controller = controller, .read = read};
        take_smaller(&limit, hierarchy_limit(root, &h));
    }
    return limit;
}
