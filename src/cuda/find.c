/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cuda/find.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

/* What an object's dynamic section says of its symbols. */
struct object {
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const char *names;
	const uint32_t *hash; /* GNU's table */
};

/* An address of the dynamic section: some loaders leave it as it is in the file, relative to the base. */
static uintptr_t address(const struct object *object, ElfW(Addr) value)
{
	return value < object->base ? object->base + value : value;
}

static void read_dynamic(struct object *object, const ElfW(Dyn) * dynamic)
{
	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		uintptr_t at = address(object, dynamic->d_un.d_ptr);

		if (dynamic->d_tag == DT_SYMTAB)
			object->symbols = (const ElfW(Sym) *)at;
		else if (dynamic->d_tag == DT_STRTAB)
			object->names = (const char *)at;
		else if (dynamic->d_tag == DT_GNU_HASH)
			object->hash = (const uint32_t *)at;
	}
}

static int note_libcuda(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *name = strrchr(info->dlpi_name, '/');
	struct object *object = arg;

	if (strncmp(name ? name + 1 : info->dlpi_name, "libcuda.so", 10))
		return 0;
	object->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			read_dynamic(object, (const ElfW(Dyn) *)(info->dlpi_addr +
								 info->dlpi_phdr[i].p_vaddr));
	return object->symbols && object->names && object->hash;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash;
}

static bool is_function(const struct object *object, const ElfW(Sym) * symbol, const char *name)
{
	return symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 15) == STT_FUNC &&
	       !strcmp(object->names + symbol->st_name, name);
}

/* The table: {buckets, first symbol, words of the filter, shift}, filter, buckets, chains whose
 * last link has its lowest bit set. */
static void *symbol(const struct object *object, const char *name)
{
	uint32_t buckets = object->hash[0], first = object->hash[1], hash = hash_of(name), i;
	const uint32_t *bucket = object->hash + 4 + object->hash[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;

	i = buckets ? bucket[hash % buckets] : 0;
	if (i < first)
		return NULL;
	for (;; i++) {
		uint32_t link = chain[i - first];

		if ((link | 1) == (hash | 1) && is_function(object, &object->symbols[i], name))
			return (void *)(object->base + object->symbols[i].st_value);
		if (link & 1)
			return NULL;
	}
}

int weft_cuda_find(struct weft_cuda *cuda, const char **lacks)
{
	struct object object = {0};
	const char *missing = NULL;

	if (!dl_iterate_phdr(note_libcuda, &object))
		return -ENOENT;
#define FIND(name, args)                                                                           \
	cuda->name = (weft_cu_result(*) args)symbol(&object, #name);                               \
	if (!cuda->name)                                                                           \
		missing = #name;
	WEFT_CUDA_CALLS(FIND)
	WEFT_CUDA_OLD_CALLS(FIND)
#undef FIND
	if (lacks)
		*lacks = missing;
	return missing ? -ENOSYS : 0;
}
