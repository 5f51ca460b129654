/*
 * How the keys of a group of work items lie in local memory: word `bit` of an item's column is DES_GROUP_MAX words behind
 * the one before, so that neighbours read neighbouring words.
 */
#define DES_GROUP_MAX 64
#define DES_KEY_WORDS 56
#define DES_PASSES_MAX 3
