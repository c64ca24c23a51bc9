/* The N-th call of one function fails: loaded before libc, armed from inside the process by torture_arm.
   cc -O1 -shared -fPIC -x c -o shim.so shim.h -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static char armed[16];
static long wanted, counted;
static int number;

void torture_arm(const char *call, long nth, int error)
{
    strncpy(armed, call, sizeof armed - 1);
    wanted = nth;
    number = error;
    counted = 0;
}

long torture_counted(void) { return counted; }

static int fails(const char *call)
{
    if (!armed[0] || strcmp(armed, call) || ++counted != wanted)
        return 0;
    errno = number;
    return 1;
}

#define REAL(type, name, ...)                                                    \
    static type (*real)(__VA_ARGS__);                                            \
    if (!real)                                                                   \
        real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);

#define WRITES(name)                                                             \
    ssize_t name(int fd, const void *data, size_t n)                             \
    {                                                                            \
        REAL(ssize_t, name, int, const void *, size_t)                           \
        return fd != 2 && fails("write") ? -1 : real(fd, data, n);               \
    }
WRITES(write)

#define PWRITES(name, offset)                                                    \
    ssize_t name(int fd, const void *data, size_t n, offset at)                  \
    {                                                                            \
        REAL(ssize_t, name, int, const void *, size_t, offset)                   \
        return fails("pwrite") ? -1 : real(fd, data, n, at);                     \
    }
PWRITES(pwrite, off_t)
PWRITES(pwrite64, off64_t)

#define ONE(name, call)                                                          \
    int name(int fd)                                                             \
    {                                                                            \
        REAL(int, name, int)                                                     \
        return fails(call) ? -1 : real(fd);                                      \
    }
ONE(fsync, "fsync")
ONE(fdatasync, "fsync")

int close(int fd)
{
    REAL(int, close, int)
    int ended = real(fd); /* closed all the same, as Linux does */
    return fd > 2 && fails("close") ? -1 : ended;
}

int rename(const char *from, const char *to)
{
    REAL(int, rename, const char *, const char *)
    return fails("rename") ? -1 : real(from, to);
}

#define TRUNCATES(name, offset)                                                  \
    int name(int fd, offset size)                                                \
    {                                                                            \
        REAL(int, name, int, offset)                                             \
        return fd != 2 && fails("ftruncate") ? -1 : real(fd, size);              \
    }
TRUNCATES(ftruncate, off_t)
TRUNCATES(ftruncate64, off64_t)

int fchmod(int fd, mode_t mode)
{
    REAL(int, fchmod, int, mode_t)
    return fails("fchmod") ? -1 : real(fd, mode);
}

int unlink(const char *path)
{
    REAL(int, unlink, const char *)
    return fails("unlink") ? -1 : real(path);
}

#define SENDS(name, offset)                                                      \
    ssize_t name(int out, int in, offset *at, size_t n)                          \
    {                                                                            \
        REAL(ssize_t, name, int, int, offset *, size_t)                          \
        return fails("sendfile") ? -1 : real(out, in, at, n);                    \
    }
SENDS(sendfile, off_t)
SENDS(sendfile64, off64_t)

#define MAPS(name, offset)                                                       \
    void *name(void *at, size_t n, int protection, int flags, int fd, offset o)  \
    {                                                                            \
        REAL(void *, name, void *, size_t, int, int, int, offset)                \
        return fd >= 0 && fails("mmap") ? MAP_FAILED : real(at, n, protection, flags, fd, o); \
    }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

#define OPENS(name)                                                              \
    int name(const char *path, int flags, ...)                                   \
    {                                                                            \
        REAL(int, name, const char *, int, ...)                                  \
        va_list more;                                                            \
        va_start(more, flags);                                                   \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;  \
        va_end(more);                                                            \
        return fails("open") ? -1 : real(path, flags, mode);                     \
    }
OPENS(open)
OPENS(open64)
