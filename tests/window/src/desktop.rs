//! A desktop of its own: screen, session bus, window manager, on request a panel, and a home.
//!
//! Nothing of the person's own session is seen or changed: home, data and settings are a temporary
//! folder, and the screen is in memory. When it is dropped, every process that was started on it
//! ends, whatever became of its parent.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::failure::{Failure, Outcome, until};
use crate::processes::{self, MARK, Process};
use crate::programs;

/// The screen's size in pixels.
pub const WIDTH: u32 = 1280;
/// The screen's size in pixels.
pub const HEIGHT: u32 = 800;

/// A running desktop.
#[derive(Debug)]
pub struct Desktop {
    mark: String,
    home: TempDir,
    display: String,
    children: Vec<Child>,
}

/// Openbox with no shortcut and no menu of its own, so that keys reach the app alone.
const OPENBOX: &str = include_str!("desktop/openbox.xml");

/// The font of the pages, so that pictures are alike on every machine.
const GTK: &str = "[Settings]\ngtk-font-name=Inter 10\ngtk-enable-animations=0\n";

/// A panel with a tray and nothing else.
const PANEL: &str = include_str!("desktop/panel.xml");

impl Desktop {
    /// Starts screen, bus and window manager, and waits until each works.
    ///
    /// # Errors
    /// When one of them is not installed or does not come up.
    pub async fn start() -> Outcome<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let home = tempfile::Builder::new()
            .prefix("transom-stage-")
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
        let number = self.start_saying(xvfb, "start the screen (Xvfb)")?;
        self.display = format!(":{number}");
        Ok(())
    }

    fn start_bus(&mut self) -> Outcome {
        let mut bus = self.command("setpriv");
        bus.args(["--pdeathsig", "KILL", "dbus-daemon", "--session"])
            .args(["--nofork", "--nopidfile", "--print-address=1"])
            .arg(format!("--address={}", self.bus_address()));
        self.start_saying(bus, "start a session bus (dbus-daemon)")?;
        Ok(())
    }

    async fn start_window_manager(&mut self) -> Outcome {
        let config = self.home().join("config/openbox/rc.xml");
        fs::write(&config, OPENBOX).map_err(Failure::doing("set the window manager up"))?;
        let mut openbox = self.command("openbox");
        openbox.args(["--sm-disable", "--config-file"]).arg(&config);
        self.start_child(openbox, "start the window manager (openbox)")?;
        until("the window manager is there", async || {
            // The last thing that it sets up: windows that come earlier are lost.
            let root = self.output("xprop", &["-root", "_NET_CLIENT_LIST"])?;
            Ok(root.contains("window id").then_some(()))
        })
        .await
    }

    /// Adds a panel with a tray at the top of the screen.
    ///
    /// # Errors
    /// When it is not installed or does not come up.
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

    /// A program that will run on this desktop; its output goes to a log named like it.
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
        // No hub but the test's, and no models but those on this desktop.
        for name in [
            "HF_ENDPOINT",
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "HF_HUB_OFFLINE",
            "TRANSFORMERS_OFFLINE",
            "HF_HOME",
            "HF_HUB_CACHE",
            "LLAMA_CACHE",
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

    /// Starts a program that stays until the desktop goes.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_child(&mut self, mut command: Command, doing: &str) -> Outcome<i32> {
        let child = command.spawn().map_err(Failure::doing(doing))?;
        let pid = child.id().cast_signed();
        self.children.push(child);
        Ok(pid)
    }

    /// Starts a program that stays, and reads the one line that it says when it is ready.
    fn start_saying(&mut self, mut command: Command, doing: &str) -> Outcome<String> {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::doing(doing))?;
        let mut line = String::new();
        let said = child.stdout.take().map(|out| {
            let mut out = BufReader::new(out);
            out.read_line(&mut line)
        });
        self.children.push(child);
        match (said, line.trim()) {
            (Some(Ok(_)), ready) if !ready.is_empty() => Ok(ready.to_owned()),
            _ => Err(Failure::stage(doing, "it ended without a word")),
        }
    }

    /// Runs a short program to its end, and returns what it said; empty if it failed.
    ///
    /// # Errors
    /// When it does not start.
    pub fn output(&self, program: &str, args: &[&str]) -> Outcome<String> {
        let mut command = self.command(program);
        let output = command
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .output()
            .map_err(|error| Failure::stage(format!("run {program}"), error))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Presses keys as xdotool names them, such as `ctrl+space`, whoever has the focus.
    ///
    /// # Errors
    /// When xdotool is not there.
    pub fn press(&self, keys: &str) -> Outcome {
        self.output("xdotool", &["key", "--clearmodifiers", keys])
            .map(drop)
    }

    /// The window that has the focus, as X names it; empty if none has.
    ///
    /// # Errors
    /// When xdotool is not there.
    pub fn active_window(&self) -> Outcome<String> {
        let window = self.output("xdotool", &["getactivewindow"])?;
        Ok(window.trim().to_owned())
    }

    /// How many icons are in the panel's tray; `None` while there is no tray.
    ///
    /// # Errors
    /// When `dbus-send` is not there.
    pub fn tray_items(&self) -> Outcome<Option<usize>> {
        let name = "org.kde.StatusNotifierWatcher";
        let told = self.output(
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
        let is_there = told.contains("array [");
        Ok(is_there.then(|| told.matches("string \"").count()))
    }

    /// Follows a link as another program does: hands it to a second start of the app, and waits
    /// until that has ended.
    ///
    /// # Errors
    /// When the app was not built, or the second start does not end.
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

    /// Clicks the only icon of the panel's tray, and waits until its menu is open.
    ///
    /// # Errors
    /// When no menu comes.
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
        // It stands at the right end of the panel.
        self.output("xdotool", &["mousemove", "1264", "14", "click", "1"])?;
        until("the menu of the tray is open", async || {
            // The click hides a chat, so the number of windows may stay the same.
            Ok((!visible()?.is_subset(&before)).then_some(()))
        })
        .await
    }

    /// The screen, as X names it.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// Where all of it lies.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The app's data folder.
    pub fn data(&self) -> PathBuf {
        self.home().join("data")
    }

    /// What the programs said.
    pub fn logs(&self) -> PathBuf {
        self.home().join("logs")
    }

    /// Where the screen's contents are.
    pub fn framebuffer(&self) -> PathBuf {
        self.home().join("screen/Xvfb_screen0")
    }

    fn bus_address(&self) -> String {
        format!("unix:path={}", self.home().join("run/bus").display())
    }

    /// Every process on this desktop.
    pub fn processes(&self) -> Vec<Process> {
        processes::with_mark(&self.mark)
    }

    /// The processes on this desktop whose program's name begins so.
    pub fn processes_named(&self, name: &str) -> Vec<Process> {
        let mut processes = self.processes();
        processes.retain(|process| process.name.starts_with(name));
        processes
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        // Twice, for one that was just being started when the list was made.
        for _ in 0..2 {
            for process in self.processes() {
                processes::kill(process.pid);
            }
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
