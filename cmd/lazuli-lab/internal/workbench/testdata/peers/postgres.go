package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// startPostgres runs PostgreSQL with its own settings, by which a commit is synced.
func startPostgres(ctx context.Context, folder string, m *workbench.Meter) (pool *pgxpool.Pool, stop func(),
	err error) {
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(programs) == 0 {
		return nil, nil, errors.New("no PostgreSQL in /usr/lib/postgresql")
	}
	bin := slices.Max(programs)
	data, err := os.MkdirTemp(folder, "postgres")
	if err != nil {
		return nil, nil, err
	}
	// initdb and postgres refuse to run as root.
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, nil, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(data, uid, gid); err != nil {
			return nil, nil, err
		}
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	server := func(name string, arguments ...any) *exec.Cmd {
		cmd := command(filepath.Join(bin, name), arguments...)
		cmd.Dir = data
		if as != nil {
			copied := *as
			cmd.SysProcAttr = &copied
		}
		return cmd
	}
	database := filepath.Join(data, "db")
	if out, err := server("initdb", "-D", database, "-U", "postgres", "--auth=trust").CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	end, err := startServer(m, os.Interrupt, server("postgres", "-D", database, "-p", port, "-k", data, "-c",
		"listen_addresses=127.0.0.1"))
	if err != nil {
		return nil, nil, err
	}
	pool, err = pgxpool.New(ctx, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?pool_max_conns=%d", port,
		workbench.Parallel))
	if err != nil {
		end()
		return nil, nil, err
	}
	stop = func() {
		pool.Close()
		end()
	}
	if err := eventually(ctx, func() error { return pool.Ping(ctx) }); err != nil {
		stop()
		return nil, nil, err
	}
	return pool, stop, nil
}

// postgresStores measures a table of rows, and one of messages in the form that is known for queues in SQL: who takes
// one hides it for a while, past the rows that others have locked, and deletes it when it is done.
func postgresStores(ctx context.Context, folder string, m *workbench.Meter) error {
	pool, stop, err := startPostgres(ctx, folder, m)
	if err != nil {
		return err
	}
	defer stop()
	for _, statement := range []string{
		`CREATE TABLE messages (id bigserial PRIMARY KEY, visible timestamptz NOT NULL DEFAULT now(), body bytea NOT NULL)`,
		`CREATE TABLE entities (partition text COLLATE "C", key text COLLATE "C", name text, age int, active boolean,
			score double precision, hired timestamptz, notes text, changed timestamptz DEFAULT now(),
			PRIMARY KEY (partition, key))`,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	p := postgres{pool}
	if err := measureMessages(ctx, m, p); err != nil {
		return err
	}
	return measureRows(ctx, m, p)
}

type postgres struct{ pool *pgxpool.Pool }

// put implements messages.
func (p postgres) put(ctx context.Context, _, n int) (err error) {
	if n == 1 {
		_, err = p.pool.Exec(ctx, `INSERT INTO messages (body) VALUES ($1)`, []byte(noise))
		return err
	}
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = []byte(noise)
	}
	_, err = p.pool.Exec(ctx, `INSERT INTO messages (body) SELECT unnest($1::bytea[])`, bodies)
	return err
}

// take implements messages.
func (p postgres) take(ctx context.Context, _, n int) (int, error) {
	found, err := p.pool.Query(ctx, `UPDATE messages SET visible = now() + interval '30 seconds' WHERE id = ANY(ARRAY(
		SELECT id FROM messages WHERE visible <= now() ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING id, body`, n)
	if err != nil {
		return 0, err
	}
	var ids []int64
	var id int64
	var body []byte
	if _, err := pgx.ForEachRow(found, []any{&id, &body}, func() error {
		if len(body) != itemSize {
			return errors.New("a message is not what was put")
		}
		ids = append(ids, id)
		return nil
	}); err != nil || len(ids) == 0 {
		return 0, err
	}
	_, err = p.pool.Exec(ctx, `DELETE FROM messages WHERE id = ANY($1)`, ids)
	return len(ids), err
}

const insertRow = `INSERT INTO entities (partition, key, name, age, active, score, hired, notes)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// columns are the values of a row of itemSize bytes, with about the properties of the entities of lazuli bench.
func columns(partition, key string) []any {
	return []any{partition, key, "employee 004711", 42, true, 1234.5, time.Unix(1562142600, 0), noise[:itemSize-180]}
}

// insert implements rows.
func (p postgres) insert(ctx context.Context, _ int, partition, key string) error {
	_, err := p.pool.Exec(ctx, insertRow, columns(partition, key)...)
	return err
}

// get implements rows.
func (p postgres) get(ctx context.Context, _ int, partition, key string) error {
	n, err := p.count(ctx, `SELECT * FROM entities WHERE partition = $1 AND key = $2`, partition, key)
	if err == nil && n != 1 {
		err = errors.New("a row is missing")
	}
	return err
}

// page implements rows.
func (p postgres) page(ctx context.Context, _ int, partition string) (int, error) {
	return p.count(ctx, `SELECT * FROM entities WHERE partition = $1 ORDER BY key LIMIT 1000`, partition)
}

// count reads rows without decoding them, as the clients of the other systems do, and counts them.
func (p postgres) count(ctx context.Context, query string, arguments ...any) (n int, err error) {
	found, err := p.pool.Query(ctx, query, arguments...)
	if err != nil {
		return 0, err
	}
	defer found.Close()
	for found.Next() {
		n++
	}
	return n, found.Err()
}

// transaction implements rows by a pipeline, which is a transaction.
func (p postgres) transaction(ctx context.Context, _ int, partition string, keys []string) error {
	var batch pgx.Batch
	for _, key := range keys {
		batch.Queue(insertRow, columns(partition, key)...)
	}
	return p.pool.SendBatch(ctx, &batch).Close()
}
