/* Preloaded by `make test-slow`: in every process of a run, syncs to disk return late, and brokers answer late.

   SLOW_DISK_MS: how much later fsync and fdatasync return.
   SLOW_BROKER_MS: how much later Mosquitto sees what its sockets have for it, and how much later still a sync of Java's
   returns: tests then start Kafka so that it syncs each record (tests/support/broker.py). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

static void wait_for(const char *setting)
{
    const char *text = getenv(setting);
    long left = text ? atol(text) : 0;
    int kept = errno;
    struct timespec time = {left / 1000, left % 1000 * 1000000};
    while (left > 0 && nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
    errno = kept;
}

static int is(const char *program)
{
    return strcmp(program_invocation_short_name, program) == 0;
}

static int sync_late(const char *name, int file)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    wait_for("SLOW_DISK_MS");
    if (is("java"))
        wait_for("SLOW_BROKER_MS");
    return next(file);
}

int fsync(int file)
{
    return sync_late("fsync", file);
}

int fdatasync(int file)
{
    return sync_late("fdatasync", file);
}

int epoll_wait(int queue, struct epoll_event *events, int most, int timeout)
{
    int (*next)(int, struct epoll_event *, int, int) =
        (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    int found = next(queue, events, most, timeout);
    if (found > 0 && is("mosquitto"))
        wait_for("SLOW_BROKER_MS");
    return found;
}
