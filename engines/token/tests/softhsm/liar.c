/* A PKCS#11 module between a program and SoftHSM that misbehaves as a file says: a vendor's library at its worst. The file is looked at
 * before each signature, so that a test changes its behaviour while it runs. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long ulong;
typedef ulong (*sign_fn)(ulong, unsigned char *, ulong, unsigned char *, ulong *);
typedef ulong (*slots_fn)(unsigned char, ulong *, ulong *);

/* Places in the function list (PKCS#11 3.1, 5.1), which begins with a version as large as a pointer. */
enum { SLOT_LIST = 4, SIGN = 43, FUNCTIONS = 68 };

static void *list[FUNCTIONS + 1];
static sign_fn sign;
static slots_fn slots;

static char behaviour(void) {
    const char *path = getenv("LIAR");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file == NULL) return 'g';
    int first = fgetc(file);
    fclose(file);
    return first == EOF ? 'g' : (char)first;
}

static ulong lying_sign(ulong session, unsigned char *data, ulong len, unsigned char *signature, ulong *signature_len) {
    char now = behaviour();
    switch (now) {
        case 'h': for (;;) pause();
        case 'c': abort();
        case 'e': return 0x30; /* CKR_DEVICE_ERROR */
        case 'r': return 0x32; /* CKR_DEVICE_REMOVED */
        case 's': usleep(300000); break;
    }
    ulong code = sign(session, data, len, signature, signature_len);
    if (code == 0 && now == 'l') signature[*signature_len / 2] ^= 4;
    if (code == 0 && now == 'n') memset(signature, 0, *signature_len);
    if (code == 0 && now == 'w') *signature_len -= 1;
    return code;
}

static ulong lying_slots(unsigned char present, ulong *places, ulong *count) {
    if (behaviour() == 'r') {
        *count = 0;
        return 0;
    }
    return slots(present, places, count);
}

ulong C_GetFunctionList(void ***given) {
    void *module = dlopen("/usr/lib/softhsm/libsofthsm2.so", RTLD_NOW);
    ulong (*entry)(void ***) = module ? (ulong (*)(void ***))dlsym(module, "C_GetFunctionList") : NULL;
    void **real;
    if (entry == NULL || entry(&real) != 0) return 5; /* CKR_GENERAL_ERROR */
    memcpy(list, real, sizeof list);
    sign = (sign_fn)list[1 + SIGN];
    slots = (slots_fn)list[1 + SLOT_LIST];
    list[1 + SIGN] = (void *)lying_sign;
    list[1 + SLOT_LIST] = (void *)lying_slots;
    *given = list;
    return 0;
}
