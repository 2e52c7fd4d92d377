# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs that a user has built with a sanitizer run over Weft, and the sanitizer finds what it is for."""
import json
import shutil
import subprocess

import pytest

PROGRAM = r'''
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static int shared;
static atomic_int begun;

/*
 * Both run at once: of one that begins when the other has ended, the sanitizer may take them for the same. And often: of two
 * accesses at the same instant neither may find the other in the sanitizer's memory.
 */
static void *race(void *arg)
{
	atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed);
	while (atomic_load_explicit(&begun, memory_order_relaxed) < 2)
		;
	for (int i = 0; i < 10000; i++)
		shared++;
	return arg;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	char *memory = calloc(1, 1 << 20);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, 1 << 20, IBV_ACCESS_LOCAL_WRITE) : NULL;
	pthread_t threads[2];

	if (!mr)
		return 9;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, race, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	puts(ibv_get_device_name(context->device));
	fflush(stdout);
	((volatile char *)memory)[(1 << 20) + argc - 1]++;
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	free(memory);
	return 0;
}
'''
FINDS = {'address': 'heap-buffer-overflow', 'thread': 'data race'}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A folder in which an ordinary user may run what is built there."""
    made = tmp_path_factory.mktemp('sanitizers')
    for place in (made, *made.parents):
        if place.owner() == made.owner() and place.name:
            place.chmod(place.stat().st_mode | 0o055)
    (made / 'program.c').write_text(PROGRAM)
    return made


def built(folder, compiler, sanitizer, *words):
    if not shutil.which(compiler):
        pytest.skip(f'{compiler} is not installed')
    program = folder / '-'.join([compiler, sanitizer, *words])
    if not program.exists():
        subprocess.run([compiler, '-g', f'-fsanitize={sanitizer}', *words, folder / 'program.c', '-o', program,
                        '-libverbs', '-lpthread'], check=True)
    return program


@pytest.mark.parametrize('compiler, sanitizer', [
    (c, s) for c in ('gcc', 'clang') for s in ('address', 'thread')])
def test_runs_and_finds(delivery, folder, compiler, sanitizer):
    program = built(folder, compiler, sanitizer)
    done = delivery.run('--private', program)
    assert done.stdout == 'weft0\n' and FINDS[sanitizer] in done.stderr, done
    eval_env = f'eval "$({delivery.weft} env --pool {delivery.folder}/pool)"; exec {program}'
    assert FINDS[sanitizer] in delivery.plain('sh', '-c', eval_env).stderr


def test_children_do_not_inherit_it(delivery, folder):
    """Children get neither the sanitizer's runtime nor the options that were set for the program alone."""
    program = built(folder, 'gcc', 'address')
    env = {**delivery.env, 'ASAN_OPTIONS': 'halt_on_error=1'}
    done = delivery.run('--private', 'sh', '-c', f'{program}; cat /proc/self/maps', env=env)
    assert 'libasan' not in done.stdout and FINDS['address'] in done.stderr


def test_doctor_says_so(delivery, folder):
    program = built(folder, 'gcc', 'address')
    done = delivery.plain(delivery.weft, 'doctor', '--json', program)
    said = {c['check']: c for c in json.loads(done.stdout)['checks']}
    assert said['program']['state'] == said['sanitizer']['state'] == 'ok'
    assert 'verify_asan_link_order=0' in said['sanitizer']['finding']
    done = delivery.plain(delivery.weft, 'doctor', '--json', '/bin/true')
    assert 'sanitizer' not in {c['check'] for c in json.loads(done.stdout)['checks']}
