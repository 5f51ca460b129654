/*
 * One source, two languages: what the kernels are written in.
 *
 * Every kernel is compiled as OpenCL C 1.2 and as CUDA C++ (through NVRTC). The words below are all that differs; nothing
 * else in the kernels asks which of the two it is. The sources of a program are put one behind the other, this one
 * first, so that no compiler has to look for a file.
 *
 * Tests of the CUDA runtime compile its branch for the processor, with DIALECT_ON_HOST defined: everything in there that
 * is PTX has a plain form beside it.
 */

/* A gate of three inputs as a sum of its minterms; compilers make two or three operations of it. */
#define GATE_3_PLAIN(table, a, b, c)                                                                                  \
    ((((table) & 0x01) ? ~(a) & ~(b) & ~(c) : 0u) | (((table) & 0x02) ? ~(a) & ~(b) & (c) : 0u) |                     \
     (((table) & 0x04) ? ~(a) & (b) & ~(c) : 0u) | (((table) & 0x08) ? ~(a) & (b) & (c) : 0u) |                       \
     (((table) & 0x10) ? (a) & ~(b) & ~(c) : 0u) | (((table) & 0x20) ? (a) & ~(b) & (c) : 0u) |                       \
     (((table) & 0x40) ? (a) & (b) & ~(c) : 0u) | (((table) & 0x80) ? (a) & (b) & (c) : 0u))

/* All of a product of two words. */
#define PRODUCT_64_PLAIN(a, b) ((u64)(a) * (b))
/* That product added to a number of 64 bits. */
#define MULTIPLY_ADD_PLAIN(a, b, sum) ((u64)(a) * (b) + (sum))

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define LOCAL __shared__
#define LOCAL_POINTER
#define CONSTANT static __constant__ const
#define CONSTANT_POINTER const
#define LITERAL_64(number) number##ULL

/* All items of a group come here before any goes on, and see what the others wrote to local and global memory. */
#define BARRIER __syncthreads()

/* This work item's place in its group, its group's number, and the items of a group. */
#define ITEM_IN_GROUP (threadIdx.x)
#define GROUP (blockIdx.x)
#define GROUP_SIZE (blockDim.x)

#define ROTATE_LEFT_32(word, by) __funnelshift_l((word), (word), (by))
#define ROTATE_LEFT_64(word, by) (((word) << (by)) | ((word) >> (64 - (by))))
#define HIGH_32(a, b) __umulhi((a), (b))

#if defined(DIALECT_ON_HOST)
#define GATE_3 GATE_3_PLAIN
#define PRODUCT_64 PRODUCT_64_PLAIN
#define OPAQUE(number) (number)
#define MULTIPLY_ADD MULTIPLY_ADD_PLAIN
#else
/* Left to itself, the compiler multiplies 64 bits where one factor is the same in a loop. */
#define PRODUCT_64(a, b) dialect_product_64((a), (b))
DEVICE u64 dialect_product_64(u32 a, u32 b)
{
    u64 result;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(result) : "r"(a), "r"(b));
    return result;
}

/* A number that the compiler knows nothing of: products with it stay products, which add to 64 bits in one instruction. */
#define OPAQUE(number) dialect_opaque(number)
DEVICE u32 dialect_opaque(u32 number)
{
    u32 result;
    asm("mov.b32 %0, %1;" : "=r"(result) : "r"(number));
    return result;
}

/* The same gate, its truth table as LOP3 wants it. */
#define GATE_3(table, a, b, c) dialect_gate_3<table>((a), (b), (c))
template <int table> DEVICE u32 dialect_gate_3(u32 a, u32 b, u32 c)
{
    u32 result;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(result) : "r"(a), "r"(b), "r"(c), "n"(table));
    return result;
}

/* The sum said in PTX as well: it takes fewer registers, and at times more instructions. */
DEVICE u64 MULTIPLY_ADD(u32 a, u32 b, u64 sum)
{
    u64 result;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(result) : "r"(a), "r"(b), "l"(sum));
    return result;
}
#endif

#else

typedef uchar u8;
typedef uint u32;
typedef ulong u64;
typedef int s32;
typedef long s64;

#define KERNEL __kernel void
#define DEVICE static inline
#define GLOBAL __global
#define LOCAL __local
#define LOCAL_POINTER __local
#define CONSTANT __constant
#define CONSTANT_POINTER __constant const
#define LITERAL_64(number) number##UL

#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

#define ITEM_IN_GROUP ((u32)get_local_id(0))
#define GROUP ((u32)get_group_id(0))
#define GROUP_SIZE ((u32)get_local_size(0))

#define ROTATE_LEFT_32(word, by) rotate((word), (u32)(by))
#define ROTATE_LEFT_64(word, by) rotate((word), (u64)(by))
#define HIGH_32(a, b) mul_hi((a), (b))
#define OPAQUE(number) (number)

#define MULTIPLY_ADD MULTIPLY_ADD_PLAIN

#define GATE_3 GATE_3_PLAIN
#define PRODUCT_64 PRODUCT_64_PLAIN

#endif

/* Loops over registers are taken apart; long ones are not, whatever the compiler thinks of it. */
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define ITEM (GROUP * GROUP_SIZE + ITEM_IN_GROUP)

/* A sum of three words. */
DEVICE u32 xor_3(u32 a, u32 b, u32 c)
{
    return GATE_3(0x96, a, b, c);
}

/* The bits of one word where a mask has ones, of the other where it has zeros. */
DEVICE u32 choose_32(u32 mask, u32 ones, u32 zeros)
{
    return GATE_3(0xca, mask, ones, zeros);
}

/* The bytes of a word the other way round. Memory is little-endian on every device that is driven. */
DEVICE u32 swap_32(u32 word)
{
    return (ROTATE_LEFT_32(word, 8) & 0x00ff00ffu) | (ROTATE_LEFT_32(word, 24) & 0xff00ff00u);
}
