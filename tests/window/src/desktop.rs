//! A separate desktop: screen, session bus, window manager, optionally a panel, and a home folder.
//!
//! It neither reads nor changes the user's session: home, data and settings are in a temporary
//! folder, and the screen is in memory. Dropping the desktop kills every process that was started
//! on it, even if its parent has exited.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::failure::{Failure, Outcome, until};
use crate::processes::{self, MARK, Process};
use crate::programs;

/// The screen's width in pixels.
pub const WIDTH: u32 = 1280;
/// The screen's height in pixels.
pub const HEIGHT: u32 = 800;

/// How long killed processes may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A running desktop.
#[derive(Debug)]
pub struct Desktop {
    mark: String,
    home: TempDir,
    display: String,
    children: Vec<Child>,
}

/// Openbox without shortcuts and menus, so that only the app receives keys.
const OPENBOX: &str = include_str!("desktop/openbox.xml");

/// The font of the pages, so that screenshots are equal on every machine.
const GTK: &str = "[Settings]\ngtk-font-name=Inter 10\ngtk-enable-animations=0\n";

/// A panel that contains only a tray.
const PANEL: &str = include_str!("desktop/panel.xml");

impl Desktop {
    /// Starts screen, bus and window manager, and waits until they work.
    ///
    /// # Errors
    /// If one of them is not installed or does not start.
    pub async fn start() -> Outcome<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let home = tempfile::Builder::new()
            .prefix("transom-test-")
            .tempdir()
            .map_err(Failure::doing("make a temporary home"))?;
        let mut desktop = Self {
            mark: format!("{}-{count}", std::process::id()),
            home,
            display: String::new(),
            children: Vec::new(),
        };
        let doing = "fill the temporary home";
        for folder in [
            "config/openbox",
            "config/gtk-3.0",
            "data",
            "logs",
            "screen",
            "run",
            "user",
        ] {
            let folder = desktop.home().join(folder);
            fs::create_dir_all(&folder).map_err(Failure::doing(doing))?;
        }
        let settings = desktop.home().join("config/gtk-3.0/settings.ini");
        fs::write(settings, GTK).map_err(Failure::doing(doing))?;
        desktop.start_screen()?;
        desktop.start_bus()?;
        desktop.start_window_manager().await?;
        Ok(desktop)
    }

    fn start_screen(&mut self) -> Outcome {
        let screen = format!("{WIDTH}x{HEIGHT}x24");
        let mut xvfb = self.command("setpriv");
        xvfb.args(["--pdeathsig", "KILL", "Xvfb", "-displayfd", "1"])
            .args(["-screen", "0", &screen, "-dpi", "96"])
            .args(["-nolisten", "tcp", "-noreset", "-fbdir"])
            .arg(self.home().join("screen"));
        let number = self.start_and_read_line(xvfb, "start the screen (Xvfb)")?;
        self.display = format!(":{number}");
        Ok(())
    }

    fn start_bus(&mut self) -> Outcome {
        let mut bus = self.command("setpriv");
        bus.args(["--pdeathsig", "KILL", "dbus-daemon", "--session"])
            .args(["--nofork", "--nopidfile", "--print-address=1"])
            .arg(format!("--address={}", self.bus_address()));
        self.start_and_read_line(bus, "start a session bus (dbus-daemon)")?;
        Ok(())
    }

    async fn start_window_manager(&mut self) -> Outcome {
        let config = self.home().join("config/openbox/rc.xml");
        fs::write(&config, OPENBOX).map_err(Failure::doing("set the window manager up"))?;
        let mut openbox = self.command("openbox");
        openbox.args(["--sm-disable", "--config-file"]).arg(&config);
        self.start_child(openbox, "start the window manager (openbox)")?;
        until("the window manager is there", async || {
            // Openbox sets this up last. It would miss windows that appear earlier.
            let root = self.output("xprop", &["-root", "_NET_CLIENT_LIST"])?;
            Ok(root.contains("window id").then_some(()))
        })
        .await
    }

    /// Adds a panel with a tray at the top of the screen.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub async fn start_panel(&mut self) -> Outcome {
        let channel = "config/xfce4/xfconf/xfce-perchannel-xml";
        let folder = self.home().join(channel);
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("xfce4-panel.xml"), PANEL))
            .map_err(Failure::doing("set the panel up"))?;
        self.start_child(self.command("xfce4-panel"), "start the panel")?;
        until("the panel is there", async || {
            let windows = self.output("xdotool", &["search", "--class", "xfce4-panel"])?;
            Ok((!windows.trim().is_empty()).then_some(()))
        })
        .await
    }

    /// Creates a command for this desktop. Its output goes to a log file with its name.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let program = program.as_ref();
        let name = Path::new(program).file_name().unwrap_or(program);
        let mut command = Command::new(program);
        let home = self.home();
        let under = |folder: &str| home.join(folder);
        command
            .env(MARK, &self.mark)
            .env("DISPLAY", &self.display)
            .env("DBUS_SESSION_BUS_ADDRESS", self.bus_address())
            .env("HOME", under("user"))
            .env("XDG_CONFIG_HOME", under("config"))
            .env("XDG_DATA_HOME", under("user/share"))
            .env("XDG_CACHE_HOME", under("user/cache"))
            .env("XDG_STATE_HOME", under("user/state"))
            .env("XDG_RUNTIME_DIR", under("run"))
            .env("TRANSOM_DATA", self.data())
            .env("LANG", "C.UTF-8")
            .env("LANGUAGE", "en_GB")
            .env("GDK_BACKEND", "x11")
            .env("NO_AT_BRIDGE", "1")
            .env("GTK_A11Y", "none")
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("LC_ALL")
            .stdin(Stdio::null())
            .current_dir(home);
        // No hub but that of the test, and no models but those on this desktop.
        for name in [
            "HF_ENDPOINT",
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "HF_HUB_OFFLINE",
            "TRANSFORMERS_OFFLINE",
            "HF_HOME",
            "HF_HUB_CACHE",
            "LLAMA_CACHE",
            "OLLAMA_MODELS",
        ] {
            command.env_remove(name);
        }
        let (out, err) = (self.log(name), self.log(name));
        command.stdout(out).stderr(err);
        command
    }

    fn log(&self, name: &std::ffi::OsStr) -> Stdio {
        let path = self.logs().join(name).with_extension("log");
        let file = File::options().create(true).append(true).open(path);
        file.map_or_else(|_| Stdio::null(), Stdio::from)
    }

    /// Starts a program that runs until the desktop is dropped.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_child(&mut self, mut command: Command, doing: &str) -> Outcome<i32> {
        let child = command.spawn().map_err(Failure::doing(doing))?;
        let pid = child.id().cast_signed();
        self.children.push(child);
        Ok(pid)
    }

    /// Starts a program that keeps running, and reads the line that it prints when it is ready.
    fn start_and_read_line(&mut self, mut command: Command, doing: &str) -> Outcome<String> {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::doing(doing))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|out| {
            let mut out = BufReader::new(out);
            out.read_line(&mut line)
        });
        self.children.push(child);
        match (read, line.trim()) {
            (Some(Ok(_)), ready) if !ready.is_empty() => Ok(ready.to_owned()),
            _ => Err(Failure::setup(doing, "it exited without output")),
        }
    }

    /// Runs a program to its end and returns its output; empty if it failed.
    ///
    /// # Errors
    /// If it does not start.
    pub fn output(&self, program: &str, args: &[&str]) -> Outcome<String> {
        let mut command = self.command(program);
        let output = command
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .output()
            .map_err(|error| Failure::setup(format!("run {program}"), error))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Presses keys in xdotool's notation, such as `ctrl+space`, in the focused window.
    ///
    /// # Errors
    /// If xdotool is not installed.
    pub fn press(&self, keys: &str) -> Outcome {
        self.output("xdotool", &["key", "--clearmodifiers", keys])
            .map(drop)
    }

    /// Returns the X id of the focused window; empty if there is none.
    ///
    /// # Errors
    /// If xdotool is not installed.
    pub fn active_window(&self) -> Outcome<String> {
        let window = self.output("xdotool", &["getactivewindow"])?;
        Ok(window.trim().to_owned())
    }

    /// Returns the number of icons in the panel's tray; `None` while there is no tray.
    ///
    /// # Errors
    /// If `dbus-send` is not installed.
    pub fn tray_items(&self) -> Outcome<Option<usize>> {
        let name = "org.kde.StatusNotifierWatcher";
        let reply = self.output(
            "dbus-send",
            &[
                "--session",
                "--print-reply",
                &format!("--dest={name}"),
                "/StatusNotifierWatcher",
                "org.freedesktop.DBus.Properties.Get",
                &format!("string:{name}"),
                "string:RegisteredStatusNotifierItems",
            ],
        )?;
        let is_there = reply.contains("array [");
        Ok(is_there.then(|| reply.matches("string \"").count()))
    }

    /// Opens a link like another program: passes it to a second start of the app, and waits until
    /// that has exited.
    ///
    /// # Errors
    /// If the app was not built, or the second start does not exit.
    pub async fn follow(&self, link: &str) -> Outcome {
        let mut second = self.command(programs::ours("transom-app")?);
        let mut second = second
            .arg(link)
            .spawn()
            .map_err(Failure::doing("follow a link"))?;
        until("the link was handed over", async || {
            let ended = second.try_wait();
            Ok(ended.map_err(Failure::doing("wait for it"))?.map(drop))
        })
        .await
    }

    /// Clicks the only icon in the panel's tray, and waits until its menu is open.
    ///
    /// # Errors
    /// If no menu appears.
    pub async fn open_tray_menu(&self) -> Outcome {
        until("the icon is in the tray", async || {
            Ok(self.tray_items()?.filter(|&n_items| n_items > 0))
        })
        .await?;
        let visible = || {
            let windows = self.output("xdotool", &["search", "--onlyvisible", "--name", ".*"])?;
            let windows = windows.lines().map(str::to_owned);
            Ok::<BTreeSet<String>, Failure>(windows.collect())
        };
        let before = visible()?;
        // The icon is at the right end of the panel.
        self.output("xdotool", &["mousemove", "1264", "14", "click", "1"])?;
        until("the menu of the tray is open", async || {
            // The click hides the chat, so the number of windows may stay the same.
            Ok((!visible()?.is_subset(&before)).then_some(()))
        })
        .await
    }

    /// Returns the X display.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// Returns the temporary home folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the app's data folder.
    pub fn data(&self) -> PathBuf {
        self.home().join("data")
    }

    /// Returns the folder with the programs' output.
    pub fn logs(&self) -> PathBuf {
        self.home().join("logs")
    }

    /// Returns the file with the screen's contents.
    pub fn framebuffer(&self) -> PathBuf {
        self.home().join("screen/Xvfb_screen0")
    }

    fn bus_address(&self) -> String {
        format!("unix:path={}", self.home().join("run/bus").display())
    }

    /// Returns every process on this desktop.
    pub fn processes(&self) -> Vec<Process> {
        processes::with_mark(&self.mark)
    }

    /// Returns the processes on this desktop whose program name starts with `name`.
    pub fn processes_named(&self, name: &str) -> Vec<Process> {
        let mut processes = self.processes();
        processes.retain(|process| process.name.starts_with(name));
        processes
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        // Until none is left: a process may just be starting another, and one with much memory needs
        // time to end, in which its environment can no longer be read.
        let deadline = Instant::now() + KILL_TIMEOUT;
        let mut ending = BTreeSet::new();
        loop {
            for process in self.processes() {
                processes::kill(process.pid);
                ending.insert(process.pid);
            }
            ending.retain(|&pid| processes::is_alive(pid));
            if ending.is_empty() || Instant::now() > deadline {
                break;
            }
            thread::yield_now();
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
