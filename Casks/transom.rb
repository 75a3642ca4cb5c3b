# The cask for a tap. The release workflow fills in the version, the checksum and the repository.
cask "transom" do
  version "0.1.0"
  sha256 :no_check

  url "https://github.com/OWNER/transom/releases/download/v#{version}/Transom_#{version}_arm64.dmg"
  name "Transom"
  desc "Menu-bar app for language models that run on your own Mac"
  homepage "https://github.com/OWNER/transom"

  depends_on arch: :arm64
  depends_on macos: ">= :sonoma"

  app "Transom.app"
  binary "#{appdir}/Transom.app/Contents/MacOS/transom"

  uninstall quit: "app.transom"

  zap trash: [
    "~/Library/Application Support/Transom",
    "~/Library/Caches/app.transom",
    "~/Library/Preferences/app.transom.plist",
    "~/Library/Saved Application State/app.transom.savedState",
    "~/Library/WebKit/app.transom",
  ]
end
