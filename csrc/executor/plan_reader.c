/* Read a plan; check every length before it is used. */
#include "plan_reader.h"

#include <string.h>

static const uint8_t *take(struct plan_reader *r, size_t size)
{
	const uint8_t *at;

	if (!r->ok || size > r->size - r->at) {
		r->ok = false;
		return NULL;
	}
	at = r->data + r->at;
	r->at += size;
	return at;
}

static const uint8_t *take_padded(struct plan_reader *r, uint32_t size)
{
	/* Calculate in 64 bits, so that the rounding cannot wrap. */
	return take(r, (size_t)(((uint64_t)size + 3) & ~(uint64_t)3));
}

bool plan_u32(struct plan_reader *r, uint32_t *value)
{
	const uint8_t *at = take(r, sizeof(*value));

	*value = 0;
	if (at)
		memcpy(value, at, sizeof(*value));
	return r->ok;
}

bool plan_u64(struct plan_reader *r, uint64_t *value)
{
	const uint8_t *at = take(r, sizeof(*value));

	*value = 0;
	if (at)
		memcpy(value, at, sizeof(*value));
	return r->ok;
}

bool plan_str(struct plan_reader *r, const char **value)
{
	uint32_t length;
	const uint8_t *at;

	*value = "";
	if (!plan_u32(r, &length))
		return false;
	if (length == UINT32_MAX) {
		r->ok = false;
		return false;
	}
	at = take_padded(r, length + 1);
	/*
	 * Require exactly one NUL, at the end: a system call then sees the whole string that was
	 * checked.
	 */
	if (!at || at[length] != '\0' || memchr(at, '\0', length)) {
		r->ok = false;
		return false;
	}
	*value = (const char *)at;
	return true;
}

bool plan_bytes(struct plan_reader *r, struct plan_bytes *value)
{
	value->data = NULL;
	if (!plan_u32(r, &value->size))
		return false;
	value->data = take_padded(r, value->size);
	return r->ok;
}

bool plan_strs(struct plan_reader *r, struct plan_strs *value)
{
	uint32_t count;

	value->items = NULL;
	value->count = 0;
	if (!plan_u32(r, &count))
		return false;
	if ((uint64_t)count + 3 > r->arena_size - r->arena_used) {
		r->ok = false;
		return false;
	}
	value->items = r->arena + r->arena_used;
	r->arena_used += (size_t)count + 3;
	for (uint32_t i = 0; i < count; i++) {
		const char *item;

		if (!plan_str(r, &item))
			return false;
		value->items[i] = (char *)(uintptr_t)item;
	}
	value->items[count] = NULL;
	value->items[count + 1] = NULL;
	value->items[count + 2] = NULL;
	value->count = count;
	return true;
}

bool plan_u32s(struct plan_reader *r, struct plan_u32s *value)
{
	value->items = NULL;
	if (!plan_u32(r, &value->count))
		return false;
	if (value->count > (r->size - r->at) / sizeof(uint32_t)) {
		r->ok = false;
		return false;
	}
	value->items = (const void *)take(r, value->count * sizeof(uint32_t));
	return r->ok;
}

bool plan_header(struct plan_reader *r, struct plan_header *header)
{
	return plan_u32(r, &header->magic) && plan_u32(r, &header->size) &&
	       plan_u32(r, &header->count) && plan_u32(r, &header->preserve_fds);
}

bool plan_operation(struct plan_reader *r, struct plan_operation *operation)
{
	return plan_u32(r, &operation->code) && plan_u32(r, &operation->size);
}

bool plan_inner(struct plan_reader *r, uint32_t size, struct plan_reader *inner)
{
	/* Numbers are read in place, so the data after this field must stay aligned. */
	if (size % sizeof(uint32_t) != 0)
		r->ok = false;
	*inner = *r;
	inner->data = take(r, size);
	inner->size = size;
	inner->at = 0;
	inner->arena_used = 0;
	inner->ok = r->ok;
	return r->ok;
}
