//! Tests of the data folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;

use super::*;

async fn refusal(data: &Path) -> String {
    let opened = open(data, || panic!("the folder is refused first")).await;
    let message = opened.unwrap_err().to_string();
    let found = connect(data).await;
    assert_eq!(found.unwrap_err().to_string(), message);
    message
}

#[tokio::test]
async fn a_missing_folder_is_created_for_its_user_only() {
    let parent = data_folder();
    let data = parent.path().join("new").join("transom");
    assert!(connect(&data).await.unwrap().is_none());
    assert!(!data.exists(), "looking makes nothing");
    let owner = open_with(&data, &workers(1)).await;
    assert_eq!(fs::metadata(&data).unwrap().mode() & 0o777, 0o700);
    owner.close().await;
    assert!(connect(&data).await.unwrap().is_none());
}

#[tokio::test]
async fn files_of_a_crashed_owner_are_replaced() {
    let data = data_folder();
    drop(UnixListener::bind(data.path().join("transom.sock")).unwrap());
    fs::write(data.path().join("transom.lock"), "1\n").unwrap();
    assert!(connect(data.path()).await.unwrap().is_none());
    let owner = open_with(data.path(), &workers(2)).await;
    assert!(owner.is_own());
    let client = connect(data.path()).await.unwrap().unwrap();
    assert_eq!(
        finish(&mut client.submit(generate_request("chat"))).await.0,
        "0 1 "
    );
    let lock = fs::read_to_string(data.path().join("transom.lock")).unwrap();
    assert_eq!(lock, format!("{}\n", std::process::id()));
    owner.close().await;
}

#[tokio::test]
async fn a_folder_that_others_can_write_is_refused() {
    for mode in [0o777, 0o720, 0o702] {
        let data = data_folder();
        fs::set_permissions(data.path(), Permissions::from_mode(mode)).unwrap();
        let message = refusal(data.path()).await;
        assert!(message.contains("can be written by others"), "{message}");
        assert!(message.contains("TRANSOM_DATA"), "{message}");
    }
}

#[tokio::test]
async fn a_folder_of_another_user_is_refused() {
    let data = data_folder();
    let own = fs::metadata(data.path()).unwrap().uid();
    if std::os::unix::fs::chown(data.path(), Some(own + 1), None).is_err() {
        transom_signals::test_support::skipped("only the superuser can give a folder away");
        return;
    }
    let message = refusal(data.path()).await;
    assert!(message.contains("belongs to another user"), "{message}");
}

#[tokio::test]
async fn a_file_instead_of_the_folder_is_refused() {
    let parent = data_folder();
    let data = parent.path().join("file");
    fs::write(&data, "").unwrap();
    let found = connect(&data).await.unwrap_err().to_string();
    assert!(found.contains("is not a folder"), "{found}");
    assert!(open(&data, || panic!("it is refused")).await.is_err());
}

#[tokio::test]
async fn without_a_socket_the_supervisor_is_not_shared() {
    let data = data_folder();
    fs::create_dir(data.path().join("transom.sock")).unwrap();
    let owner = open_with(data.path(), &workers(2)).await;
    assert!(owner.is_own());
    let why = owner.sharing_error().unwrap().to_string();
    assert!(why.contains("transom.sock"), "{why}");
    assert_eq!(
        finish(&mut owner.handle().submit(generate_request("chat")))
            .await
            .0,
        "0 1 "
    );
    assert!(
        InstanceLock::take(data.path()).unwrap().is_none(),
        "it has the lock"
    );
    in_time(owner.close()).await;
    assert!(InstanceLock::take(data.path()).unwrap().is_some());
}

#[tokio::test]
async fn with_a_path_too_long_for_a_socket_the_supervisor_is_not_shared() {
    let parent = data_folder();
    let data = parent.path().join("x".repeat(100));
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
    let owner = open_with(&data, &workers(2)).await;
    let message = owner.sharing_error().unwrap().to_string();
    assert_eq!(refusal(&data).await, message);
    in_time(owner.close()).await;
    assert!(message.contains("transom.sock is too long"), "{message}");
    assert!(message.contains("TRANSOM_DATA"), "{message}");
}

#[test]
fn caches_are_in_the_users_folder_for_caches_unless_the_data_is_elsewhere() {
    let default = || Some(PathBuf::from("/home/ada/.local/share/transom"));
    let caches = || Some(PathBuf::from("/home/ada/.cache"));
    let data = Path::new("/home/ada/.local/share/transom");
    let expected = Path::new("/home/ada/.cache").join(FOLDER_NAME);
    assert_eq!(cache_folder_of(data, default(), caches()), expected);
    let other = Path::new("/srv/data");
    for (data, default, caches) in [
        (other, default(), caches()),
        (other, None, caches()),
        (data, default(), None),
    ] {
        assert_eq!(cache_folder_of(data, default, caches), data.join("cache"));
    }
}
