#include <tilth/comm/who.h>

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <tilth/base/str.h>
#include <tilth/core/comm.h>

static const char *get_own(const char *name, void *payload)
{
    (void)payload;
    return getenv(name);
}

static const char *value_of(const tl_who_environment *e, const char *name)
{
    const char *value = e->get(name, e->payload);
    return value && *value ? value : NULL;
}

static tl_status number(int32_t *out, const tl_who_environment *e, const char *name, int32_t least,
                        int32_t most)
{
    const char *text = value_of(e, name);
    char *end = NULL;
    if (!text) return TL_FAIL(TL_EINVAL, "%s is not set, though others of its kind are", name);
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        return TL_FAIL(TL_EINVAL,
                       "%s: expected a whole number from %" PRId32 " to %" PRId32 ", found '%.40s'",
                       name, least, most, text);
    *out = (int32_t)value;
    return TL_OK;
}

/* Of the machine itself, or of one of its interfaces. */
static bool is_own(int family, const void *at, const struct ifaddrs *interfaces)
{
    if (family == AF_INET && *(const uint8_t *)at == 127) return true;
    if (family == AF_INET6 && IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)at)) return true;
    for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != family) continue;
        const struct sockaddr_in *four = (void *)i->ifa_addr;
        const struct sockaddr_in6 *six = (void *)i->ifa_addr;
        const bool same = family == AF_INET
                              ? memcmp(&four->sin_addr, at, sizeof four->sin_addr) == 0
                              : memcmp(&six->sin6_addr, at, sizeof six->sin6_addr) == 0;
        if (same) return true;
    }
    return false;
}

static bool is_own_address(const char *host, size_t length)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t at[sizeof(struct in6_addr)];
    struct ifaddrs *interfaces;
    const bool in_brackets = length > 2 && host[0] == '[' && host[length - 1] == ']';
    if (in_brackets) host++, length -= 2;
    if (length >= sizeof text) return false;
    memcpy(text, host, length);
    text[length] = '\0';
    const int family = inet_pton(AF_INET, text, at) == 1    ? AF_INET
                       : inet_pton(AF_INET6, text, at) == 1 ? AF_INET6
                                                            : AF_UNSPEC;
    if (family == AF_UNSPEC || getifaddrs(&interfaces) < 0) return false;
    const bool own = is_own(family, at, interfaces);
    freeifaddrs(interfaces);
    return own;
}

/* By its name, with or without a domain, or an address, as far as that can be said without asking
 * others. */
static bool is_here(const char *host, size_t length)
{
    static const char *const names_of_all[] = {"localhost", "ip6-localhost"};
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    for (int64_t i = 0; i < TL_COUNT(names_of_all); i++) {
        const size_t name = strlen(names_of_all[i]);
        if (length >= name && strncasecmp(names_of_all[i], host, name) == 0
            && (length == name || host[name] == '.'))
            return true;
    }
    const size_t name = strcspn(own, "."), same = strlen(own) < length ? strlen(own) : length;
    if (same >= name && name && strncasecmp(own, host, same) == 0
        && (length == strlen(own) || (length > same ? host[same] : own[same]) == '.'))
        return true;
    return is_own_address(host, length);
}

/* --- launchers that count --------------------------------------------------------------------- */

/* What one launcher calls its numbers. */
typedef struct names {
    tl_who_source from;
    const char *source;
    const char *rank, *size;
    const char *local_rank, *local_size; /* or NULL */
    const char *key, *key_too;           /* or NULL */
    const char *mpi;                     /* or NULL */
} names;
static const names launchers[] = {
    {TL_WHO_TILTH, "tilth launch (TILTH_RANK, TILTH_SIZE)", "TILTH_RANK", "TILTH_SIZE",
     "TILTH_LOCAL_RANK", "TILTH_LOCAL_SIZE", NULL, NULL, NULL},
    {TL_WHO_MPI, "mpirun (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "openmpi"},
    {TL_WHO_MPI, "mpirun (PMIX_RANK, PMIX_SIZE)", "PMIX_RANK", "PMIX_SIZE", NULL, NULL,
     "PMIX_NAMESPACE", NULL, NULL},
    {TL_WHO_MPI, "mpirun (PMI_RANK, PMI_SIZE)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS", "PMI_JOBID", "HYDRA_JOBID", "mpich"},
    {TL_WHO_TORCHRUN, "torchrun (RANK, WORLD_SIZE)", "RANK", "WORLD_SIZE", "LOCAL_RANK",
     "LOCAL_WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID", NULL},
    {TL_WHO_SLURM, "Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS)", "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, "SLURM_JOB_ID", "SLURM_STEP_ID", NULL},
};

/* Both of its numbers are there: RANK alone may mean anything, and PMIX_RANK comes without a
 * size. */
static bool speaks(const tl_who_environment *e, const names *n)
{
    bool size = value_of(e, n->size), rank = value_of(e, n->rank);
    return n->from == TL_WHO_TILTH ? size || rank : size && rank;
}

static void set_key(tl_who *out, const tl_who_environment *e, const names *n)
{
    const char *key = n->key ? value_of(e, n->key) : NULL;
    const char *too = n->key_too ? value_of(e, n->key_too) : NULL;
    if (key || too)
        snprintf(out->key, sizeof out->key, "%d %.70s %.70s", (int)n->from, key ? key : "",
                 too ? too : "");
}

/* Where the others are, as far as it is known. */
static void set_hosts(tl_who *out, const tl_who_environment *e)
{
    char host[256] = "this-host";
    if (out->local_size == out->size) return;
    gethostname(host, sizeof host - 1);
    const char *first = value_of(e, "MASTER_ADDR");
    snprintf(out->hosts, sizeof out->hosts, "%.200s:%" PRId32 ",OTHER_HOST:%" PRId32,
             first && out->from == TL_WHO_TORCHRUN ? first : host, out->local_size,
             out->size - out->local_size);
}

static tl_status read_numbers(tl_who *out, const tl_who_environment *e, const names *n)
{
    *out = (tl_who){.from = n->from, .source = n->source, .mpi = n->mpi};
    TL_TRY(number(&out->size, e, n->size, 1, TL_COMM_RANKS));
    TL_TRY(number(&out->rank, e, n->rank, 0, out->size - 1));
    out->local_rank = out->rank;
    out->local_size = out->size;
    if (n->local_size && value_of(e, n->local_size))
        TL_TRY(number(&out->local_size, e, n->local_size, 1, out->size));
    if (n->local_rank && value_of(e, n->local_rank))
        TL_TRY(number(&out->local_rank, e, n->local_rank, 0, out->size - 1));
    int32_t nodes = 1; // Slurm tells the tasks of each in words of its own
    if (n->from == TL_WHO_SLURM && value_of(e, "SLURM_STEP_NUM_NODES"))
        TL_TRY(number(&nodes, e, "SLURM_STEP_NUM_NODES", 1, TL_COMM_RANKS));
    if (nodes > 1) out->local_size = (out->size + nodes - 1) / nodes;
    // Started by hand, with the variables that PyTorch needs: how many are here is not said.
    const char *first = n->from == TL_WHO_TORCHRUN ? value_of(e, "MASTER_ADDR") : NULL;
    if (first && !value_of(e, n->local_size) && !is_here(first, strlen(first))) out->local_size = 1;
    set_key(out, e, n);
    set_hosts(out, e);
    return TL_OK;
}

/* --- TF_CONFIG -------------------------------------------------------------------------------- */

static size_t host_length(const char *address)
{
    const char *colon = strrchr(address, ':');
    return colon ? (size_t)(colon - address) : strlen(address);
}

/* The chief first, then workers; evaluators have no part in the training. */
static tl_status add_workers(const char **out, int32_t *count, const json_t *list, const char *kind)
{
    if (!list) return TL_OK;
    if (!json_is_array(list))
        return TL_FAIL(TL_EINVAL, "TF_CONFIG: cluster.%s: expected a list of \"host:port\"", kind);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *address = json_string_value(json_array_get(list, i));
        if (!address || !*address)
            return TL_FAIL(TL_EINVAL, "TF_CONFIG: cluster.%s: expected a list of \"host:port\"",
                           kind);
        for (int32_t k = 0; k < *count; k++)
            if (strcasecmp(out[k], address) == 0)
                return TL_FAIL(TL_EINVAL, "TF_CONFIG: cluster.%s: '%.80s' is there twice", kind,
                               address);
        if (*count == TL_COMM_RANKS)
            return TL_FAIL(TL_EINVAL, "TF_CONFIG: more than %d workers", TL_COMM_RANKS);
        out[(*count)++] = address;
    }
    return TL_OK;
}

/* -1: no whole number. */
static json_int_t index_of(const json_t *index)
{
    const char *text = json_string_value(index);
    char *end = NULL;
    if (json_is_integer(index)) return json_integer_value(index);
    if (!text || !*text) return -1;
    const long long value = strtoll(text, &end, 10);
    return *end ? -1 : value;
}

static const char no_servers[] = "TF_CONFIG: parameter servers are not supported: there is no "
                                 "order in which their updates could be repeated; use workers "
                                 "alone";

static tl_status find_place(tl_who *out, const json_t *task, int32_t chiefs, int32_t count)
{
    const char *type = json_string_value(json_object_get(task, "type"));
    const json_t *index = json_object_get(task, "index");
    bool chief = type && (strcmp(type, "chief") == 0 || strcmp(type, "master") == 0);
    if (type && strcmp(type, "ps") == 0) return TL_FAIL(TL_EUNSUPPORTED, "%s", no_servers);
    if (!chief && (!type || strcmp(type, "worker") != 0))
        return TL_FAIL(TL_EINVAL, "TF_CONFIG: task.type: expected chief or worker, found '%.40s'",
                       type ? type : "nothing");
    const json_int_t at = index_of(index);
    json_int_t first = chief ? 0 : chiefs, most = (chief ? chiefs : count - chiefs) - 1;
    if (at < 0 || at > most)
        return TL_FAIL(TL_EINVAL,
                       "TF_CONFIG: task.index: expected 0 to %" JSON_INTEGER_FORMAT
                       ", as the cluster has them",
                       most);
    out->rank = (int32_t)(first + at);
    return TL_OK;
}

/* Of hosts that have no room only how many they are is told. */
static void list_hosts(tl_who *out, const char *const *workers)
{
    enum { REST = 32 };
    size_t at = 0;
    for (int32_t i = 0; i < out->size; i++) {
        const size_t length = host_length(workers[i]);
        if (at + length + sizeof ",:1" + REST > sizeof out->hosts) {
            snprintf(out->hosts + at, sizeof out->hosts - at, "%sAND_%" PRId32 "_MORE_HOSTS",
                     i ? "," : "", out->size - i);
            return;
        }
        at += (size_t)snprintf(out->hosts + at, sizeof out->hosts - at, "%s%.*s:1", i ? "," : "",
                               (int)length, workers[i]);
    }
}

static void place_workers(tl_who *out, const char *const *workers)
{
    bool same = true;
    for (int32_t i = 0; i < out->size; i++) {
        size_t length = host_length(workers[i]);
        bool own = length == host_length(workers[out->rank])
                   && strncasecmp(workers[i], workers[out->rank], length) == 0;
        bool here = own
                    || (is_here(workers[i], length)
                        && is_here(workers[out->rank], host_length(workers[out->rank])));
        same = same && here;
        out->local_size += here;
        out->local_rank += here && i < out->rank;
    }
    snprintf(out->key, sizeof out->key, "%d %.140s", (int)TL_WHO_TF_CONFIG, workers[0]);
    if (!same) list_hosts(out, workers);
}

static tl_status read_cluster(tl_who *out, const json_t *root)
{
    const char *workers[TL_COMM_RANKS];
    const json_t *cluster = json_object_get(root, "cluster");
    int32_t chiefs = 0;
    if (!json_is_object(root) || (cluster && !json_is_object(cluster)))
        return TL_FAIL(TL_EINVAL, "TF_CONFIG: expected {\"cluster\": {...}, \"task\": {...}}");
    if (json_array_size(json_object_get(cluster, "ps")))
        return TL_FAIL(TL_EUNSUPPORTED, "%s", no_servers);
    *out = (tl_who){.from = TL_WHO_TF_CONFIG, .source = "TF_CONFIG"};
    TL_TRY(add_workers(workers, &chiefs, json_object_get(cluster, "chief"), "chief"));
    TL_TRY(add_workers(workers, &chiefs, json_object_get(cluster, "master"), "master"));
    out->size = chiefs;
    TL_TRY(add_workers(workers, &out->size, json_object_get(cluster, "worker"), "worker"));
    if (out->size <= 1) {
        *out =
            (tl_who){.from = TL_WHO_TF_CONFIG, .source = "TF_CONFIG", .size = 1, .local_size = 1};
        return TL_OK;
    }
    TL_TRY(find_place(out, json_object_get(root, "task"), chiefs, out->size));
    place_workers(out, workers);
    return TL_OK;
}

static tl_status read_tf_config(tl_who *out, const char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return TL_FAIL(TL_EINVAL, "TF_CONFIG: not JSON: %s (column %d)", error.text, error.column);
    tl_status st = read_cluster(out, root);
    json_decref(root);
    return st;
}

/* --- worker_hosts and task_index -------------------------------------------------------------- */

/* What tl_who_tell was told, its commas as ends of texts; of no workers: nothing. */
static struct {
    char text[32768];
    const char *workers[TL_COMM_RANKS];
    int32_t count, index;
} cluster;

tl_status tl_who_tell(const char *worker_hosts, int64_t task_index)
{
    cluster.count = 0;
    if (!worker_hosts || !*worker_hosts) return TL_OK;
    if (strlen(worker_hosts) >= sizeof cluster.text)
        return TL_FAIL(TL_ELIMIT, "worker_hosts: at most %zu bytes", sizeof cluster.text - 1);
    snprintf(cluster.text, sizeof cluster.text, "%s", worker_hosts);
    int32_t count = 0;
    for (char *at = cluster.text, *next; at; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = '\0';
        const size_t host = host_length(at);
        if (!host || !at[host] || !at[host + 1])
            return TL_FAIL(TL_EINVAL, "worker_hosts: expected host:port,host:port, found '%.80s'",
                           worker_hosts);
        if (count == TL_COMM_RANKS)
            return TL_FAIL(TL_EINVAL, "worker_hosts: more than %d workers", TL_COMM_RANKS);
        cluster.workers[count++] = at;
    }
    if (count == 1) return TL_OK;
    if (task_index < 0 || task_index >= count)
        return TL_FAIL(TL_EINVAL,
                       "task_index: expected 0 to %" PRId32 ", for worker_hosts names %" PRId32
                       " workers, found %" PRId64,
                       count - 1, count, task_index);
    cluster.index = (int32_t)task_index;
    cluster.count = count;
    return TL_OK;
}

static void read_told(tl_who *out)
{
    *out = (tl_who){.from = TL_WHO_WORKER_HOSTS,
                    .source = "runtime.worker_hosts and task_index",
                    .rank = cluster.index,
                    .size = cluster.count};
    place_workers(out, cluster.workers);
}

/* --- all of them ------------------------------------------------------------------------------ */

/* The first that speaks of several processes is believed, and must not be gainsaid. */
static tl_status believe(tl_who *out, const tl_who *next)
{
    if (out->size <= 1) {
        if (out->from == TL_WHO_ALONE || next->size > 1) *out = *next;
        return TL_OK;
    }
    if (next->size <= 1 || next->from == TL_WHO_SLURM
        || (next->rank == out->rank && next->size == out->size))
        return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s says rank %" PRId32 " of %" PRId32 ", %s says rank %" PRId32 " of %" PRId32
                   ": unset the variables of the one that did not start this process",
                   out->source, out->rank, out->size, next->source, next->rank, next->size);
}

tl_status tl_who_find(tl_who *out, const tl_who_environment *environment)
{
    static const tl_who_environment own = {get_own, NULL};
    const tl_who_environment *e = environment ? environment : &own;
    const char *config = value_of(e, "TF_CONFIG");
    tl_who next;
    *out = (tl_who){.source = "nobody", .size = 1, .local_size = 1};
    for (int64_t i = 0; i < TL_COUNT(launchers); i++) {
        if (!speaks(e, &launchers[i])) continue;
        TL_TRY(read_numbers(&next, e, &launchers[i]));
        TL_TRY(believe(out, &next));
    }
    if (config) {
        TL_TRY(read_tf_config(&next, config));
        TL_TRY(believe(out, &next));
    }
    if (!cluster.count) return TL_OK;
    read_told(&next);
    return believe(out, &next);
}
