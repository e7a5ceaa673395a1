// Command ledger is a test program that is bound to a database. It writes a row per request and answers once the row is
// committed. It listens once it has connected to the database.
//
//	POST /rows/17   writes row 17
//	GET /rows       lists all rows, one per line
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

func main() {
	log.SetFlags(0)
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt) // until termination
	if err := run(ctx); err != nil {
		log.Fatalf("ledger: %v", err)
	}
}

func run(ctx context.Context) error {
	db, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	server := &http.Server{Addr: ":8080", Handler: handler(db), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(shutdownCtx)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// open connects to the database with the binding.
func open(ctx context.Context) (*sql.DB, error) {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.DBName = os.Getenv("DB_USERNAME"), os.Getenv("DB_PASSWORD"), os.Getenv("DB_DATABASE")
	config.Net, config.Addr = "tcp", net.JoinHostPort(os.Getenv("DB_HOST"), os.Getenv("DB_PORT"))
	if ca := os.Getenv("DB_CA_CERT"); ca != "" {
		authorities := x509.NewCertPool()
		authorities.AppendCertsFromPEM([]byte(ca))
		config.TLS = &tls.Config{RootCAs: authorities, ServerName: os.Getenv("DB_HOST"), MinVersion: tls.VersionTLS12}
	}
	config.Timeout, config.ReadTimeout, config.WriteTimeout = 2*time.Second, 5*time.Second, 5*time.Second
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("read the binding: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(8)
	// Short-lived connections show whether the password is still valid.
	db.SetConnMaxLifetime(200 * time.Millisecond)
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS ledger (id BIGINT PRIMARY KEY) ENGINE=InnoDB"); err != nil {
		return nil, fmt.Errorf("create the table: %w", err)
	}
	return db, nil
}

func handler(db *sql.DB) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /rows/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err == nil {
			_, err = db.ExecContext(r.Context(), "INSERT INTO ledger (id) VALUES (?)", id)
		}
		if err != nil {
			log.Printf("row %s: %v", r.PathValue("id"), err)
			pod, _ := os.Hostname() // clients of a Service do not know which pod answers
			http.Error(w, pod+": "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("GET /rows", func(w http.ResponseWriter, r *http.Request) {
		if err := listRows(r.Context(), db, w); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

func listRows(ctx context.Context, db *sql.DB, w http.ResponseWriter) error {
	rows, err := db.QueryContext(ctx, "SELECT id FROM ledger")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	out := bufio.NewWriter(w)
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		fmt.Fprintln(out, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return out.Flush()
}
