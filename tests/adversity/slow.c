/* Preloaded by `make test-slow`: syncs to disk and brokers' answers come late, in every process of a run.

   SLOW_DISK_MS: how much later fsync and fdatasync return.
   SLOW_BROKER_MS: how much later a broker (Java, Mosquitto) sees what its sockets have for it; an answer that another
   thread of a Kafka broker gives waits as long again. */

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

static int is_broker(void)
{
    return strcmp(program_invocation_short_name, "java") == 0 || strcmp(program_invocation_short_name, "mosquitto") == 0;
}

int fsync(int file)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_for("SLOW_DISK_MS");
    return next(file);
}

int fdatasync(int file)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_for("SLOW_DISK_MS");
    return next(file);
}

int epoll_wait(int queue, struct epoll_event *events, int most, int timeout)
{
    int (*next)(int, struct epoll_event *, int, int) =
        (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    int found = next(queue, events, most, timeout);
    if (found > 0 && is_broker())
        wait_for("SLOW_BROKER_MS");
    return found;
}
